import { createConnection } from 'mysql2/promise'

/** The music shop of `dataset.ts` in a MariaDB, without its roles. */
const statements = [
  'create database public character set utf8mb4',
  'use public',
  'create table artist (artist_id int primary key, name varchar(100) not null)',
  'create table genre (genre_id int primary key, name varchar(100) not null)',
  `create table album (album_id int primary key, title varchar(100) not null, artist_id int not null,
     foreign key (artist_id) references artist (artist_id))`,
  `create table track (track_id int primary key, name varchar(100) not null, album_id int not null, genre_id int not null,
     composer varchar(100), milliseconds int not null, bytes bigint, unit_price decimal(10,2) not null,
     foreign key (album_id) references album (album_id), foreign key (genre_id) references genre (genre_id))`,
  `create table play (play_id bigint primary key auto_increment, track_id int not null, listener varchar(100) not null,
     played_at timestamp(6) not null default current_timestamp(6), foreign key (track_id) references track (track_id))`,
  `insert into artist select seq, concat('Artist ', seq, repeat('é', seq % 5)) from seq_1_to_275`,
  `insert into genre select seq, concat('Genre ', seq) from seq_1_to_25`,
  `insert into album select seq, concat('Album "', seq, '"'), 1 + seq * 37 % 275 from seq_1_to_347`,
  `insert into track select seq, concat('Track ', seq, repeat(' and more', seq % 4)), 1 + seq % 347, 1 + seq % 25,
     case when seq % 3 > 0 then concat('Composer ', seq % 97) end, 60000 + seq * 7919 % 400000, 1000000 + seq * 104729 % 9000000, 0.99
     from seq_1_to_3503`,
  'analyze table artist, genre, album, track, play',
]

/** @returns the server's version */
export async function createMysqlDataset(url: string): Promise<string> {
  const connection = await createConnection({ uri: url })
  try {
    for (const text of statements) await connection.query(text)
    const [rows] = await connection.query('select version() as version')
    return (rows as { version: string }[])[0]!.version
  } finally {
    connection.destroy()
  }
}
