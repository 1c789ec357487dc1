-- A small shop: what `busbar up --with-mysql` serves.
drop database if exists sample;
create database sample character set utf8mb4;
use sample;
create table customer (
  id int unsigned primary key auto_increment,
  name varchar(100) not null,
  email varchar(200) not null unique,
  level enum('new', 'regular', 'gold') not null default 'new',
  settings json,
  created_at timestamp(6) not null default current_timestamp(6)
) comment 'Who buys';
create table product (
  id int unsigned primary key auto_increment,
  name varchar(100) not null,
  price decimal(10, 2) not null check (price >= 0),
  in_stock tinyint(1) not null default 1,
  labels set('heavy', 'fragile', 'cold')
);
create table category (
  id int unsigned primary key auto_increment,
  name varchar(100) not null unique
);
create table product_category (
  product_id int unsigned not null,
  category_id int unsigned not null,
  primary key (product_id, category_id),
  foreign key (product_id) references product (id) on delete cascade,
  foreign key (category_id) references category (id) on delete cascade
);
create table purchase (
  id bigint unsigned primary key auto_increment,
  customer_id int unsigned not null,
  product_id int unsigned not null,
  quantity int not null default 1,
  bought_at datetime(3) not null default current_timestamp(3),
  foreign key (customer_id) references customer (id),
  foreign key (product_id) references product (id)
);
insert into customer (name, email, level, settings) values
  ('Ada Berg', 'ada@example.com', 'gold', '{"newsletter": true, "languages": ["de", "en"]}'),
  ('Bo Chen', 'bo@example.com', 'regular', '{"newsletter": false}'),
  ('Cy Diaz', 'cy@example.com', 'new', null);
insert into product (name, price, in_stock, labels) values
  ('Anvil', 129.90, 1, 'heavy'), ('Vase', 24.50, 1, 'fragile'), ('Ice cream', 4.20, 0, 'cold'), ('Book', 12.00, 1, null);
insert into category (name) values ('Garden'), ('Home'), ('Food');
insert into product_category values (1, 1), (2, 1), (2, 2), (3, 3), (4, 2);
insert into purchase (customer_id, product_id, quantity) values (1, 1, 1), (1, 2, 4), (2, 3, 10), (2, 4, 1), (1, 4, 2);
-- The last one: it tells that all of the above is there.
create table payment (
  id bigint unsigned primary key auto_increment,
  purchase_id bigint unsigned not null,
  amount decimal(12, 2) not null,
  foreign key (purchase_id) references purchase (id)
);
