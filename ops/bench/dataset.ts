import { Client } from 'pg'

/** The role the benchmarks' tokens name: it reads and writes under row security. */
export const webRole = 'bench_web'
export const jwtSecret = 'a-secret-that-only-this-benchmark-uses'

const artists = 275
const albums = 347
const tracks = 3503

/** A music shop of the size and shape of the well-known sample databases, made up by numbers. */
const statements = [
  `create role ${webRole}`,
  `create table artist (artist_id int primary key, name text not null)`,
  `create table genre (genre_id int primary key, name text not null)`,
  `create table album (album_id int primary key, title text not null, artist_id int not null references artist)`,
  `create table track (
     track_id int primary key, name text not null, album_id int not null references album,
     genre_id int not null references genre, composer text, milliseconds int not null, bytes bigint, unit_price numeric(10,2) not null)`,
  `create table play (
     play_id bigint generated always as identity primary key, track_id int not null references track,
     listener text not null, played_at timestamptz not null default now())`,
  `insert into artist select n, 'Artist ' || n || repeat('é', n % 5) from generate_series(1, ${artists}) n`,
  `insert into genre select n, 'Genre ' || n from generate_series(1, 25) n`,
  `insert into album select n, 'Album "' || n || '"', 1 + n * 37 % ${artists} from generate_series(1, ${albums}) n`,
  `insert into track
     select n, 'Track ' || n || repeat(' and more', n % 4), 1 + n % ${albums}, 1 + n % 25,
       case when n % 3 > 0 then 'Composer ' || n % 97 end, 60000 + n * 7919 % 400000, 1000000 + n * 104729 % 9000000, 0.99
     from generate_series(1, ${tracks}) n`,
  'create index on album (artist_id)',
  'create index on track (album_id)',
  'create index on track (genre_id)',
  ...['artist', 'genre', 'album', 'track', 'play'].flatMap((table) => [
    `alter table ${table} enable row level security`,
    `create policy with_subject on ${table}
       using ((select current_setting('request.jwt.claims', true)::json ->> 'sub') is not null)`,
    `grant select, insert on ${table} to ${webRole}`,
  ]),
  'analyze',
]

export async function createDataset(url: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    for (const text of statements) await client.query(text)
  } finally {
    await client.end()
  }
}

export interface BenchCase {
  readonly name: string
  readonly method: 'GET' | 'POST'
  /** The n-th request's path below the base path, and its body. */
  readonly request: (n: number) => { readonly path: string; readonly body?: string }
  /** What the floor runs for it, with its parameters taken from the same n. */
  readonly floorSql: string
  readonly floorParameters: (n: number) => readonly string[]
  readonly status: number
}

/** Sizes as in `request`: the floor builds the same rows, and nothing else, in the database. */
export const restCases: readonly BenchCase[] = [
  {
    name: 'get by key',
    method: 'GET',
    request: (n) => ({ path: `/track/${1 + (n % tracks)}` }),
    floorSql: 'select row_to_json(t) from track t where track_id = $1',
    floorParameters: (n) => [String(1 + (n % tracks))],
    status: 200,
  },
  {
    name: 'list of 100',
    method: 'GET',
    request: (n) => ({ path: `/track?limit=100&offset=${n % 3000}&orderBy=track_id` }),
    floorSql: `select '{"data":' || coalesce(json_agg(row_to_json(t))::text, '[]') || '}'
               from (select * from track order by track_id limit 100 offset $1) t`,
    floorParameters: (n) => [String(n % 3000)],
    status: 200,
  },
  {
    name: 'filtered list with expansion',
    method: 'GET',
    request: (n) => ({ path: `/album?album_id=gt.${n % 300}&limit=10&orderBy=album_id&expand=artist,track` }),
    floorSql: `select '{"data":' || coalesce(json_agg(row_to_json(a))::text, '[]') || '}' from (
                 select album.*,
                   (select row_to_json(artist) from artist where artist.artist_id = album.artist_id) as artist,
                   (select coalesce(json_agg(row_to_json(track)), '[]') from track where track.album_id = album.album_id) as track
                 from album where album_id > $1 order by album_id limit 10) a`,
    floorParameters: (n) => [String(n % 300)],
    status: 200,
  },
  {
    name: 'insert',
    method: 'POST',
    request: (n) => ({
      path: '/play',
      body: JSON.stringify({ track_id: 1 + (n % tracks), listener: `listener ${n}` }),
    }),
    floorSql: 'insert into play (track_id, listener) values ($1, $2) returning row_to_json(play)',
    floorParameters: (n) => [String(1 + (n % tracks)), `listener ${n}`],
    status: 201,
  },
]
