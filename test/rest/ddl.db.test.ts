import t from 'tap'
import { testGateway } from './gateway.ts'

const { sql, call } = await testGateway(t, {
  schemaSql: `
    create table item (id integer primary key, name text not null, size integer, tag_id integer);
    create table tag (id integer primary key, word text);
    insert into tag select n, 'w' || n from generate_series(1, 5) n;
    insert into item select n, 'n' || n, n % 3, 1 + n % 5 from generate_series(1, 50) n;
    create view big_item as select id, name from item where id > 0;`,
})

/** Requests for what no change touches; none may fail, whatever happens to the rest of the schema. */
const steady: readonly (readonly [path: string, data: RegExp])[] = [
  ['/item?select=id,name&limit=2', /^\{"data":\[\{"id":1,"name":"n1"\},\{"id":2,"name":"n2"\}\]/],
  ['/item/7?select=name', /^\{"name":"n7"\}$/],
  ['/item?select=id&orderBy=name&first=2', /^\{"data":\[\{"id":1\},\{"id":10\}\]/],
  ['/item?name=eq.n3&select=id', /^\{"data":\[\{"id":3\}\]/],
  ['/item?select=count()', /^\{"data":\[\{"count":50\}\]/],
  ['/tag?select=word&limit=1', /^\{"data":\[\{"word":"w1"\}\]/],
  ['/big_item?select=id&limit=1', /^\{"data":\[\{"id":1\}\]/],
  // All columns, whichever they are at the moment.
  ['/item?limit=1', /^\{"data":\[\{"id":1,/],
  ['/item/7', /^\{"id":7,/],
]

const faults: string[] = []
let answered = 0
const ending = new AbortController()
async function load(offset: number): Promise<void> {
  for (let turn = offset; !ending.signal.aborted; turn++) {
    const [path, data] = steady[turn % steady.length]!
    const { status, text } = await call(path)
    answered += 1
    if (status !== 200 || !data.test(text)) faults.push(`${path}: ${status} ${text}`)
  }
}

/** When the change is to be seen; how long that took is told, not asserted: machines differ. */
async function becomes(path: string, wanted: (status: number, text: string) => boolean): Promise<number> {
  const startedAt = performance.now()
  for (;;) {
    const { status, text } = await call(path)
    if (wanted(status, text)) return Math.round(performance.now() - startedAt)
  }
}

interface Change {
  readonly title: string
  readonly ddl: string
  readonly path: string
  readonly wanted: (status: number, text: string) => boolean
}

const changes: readonly Change[] = [
  {
    title: 'a column is added',
    ddl: `alter table item add colour text default 'red'`,
    path: '/item?colour=eq.red&select=colour&limit=1',
    wanted: (status, text) => status === 200 && text.startsWith('{"data":[{"colour":"red"}]'),
  },
  {
    title: 'a column is renamed',
    ddl: 'alter table item rename colour to hue',
    path: '/item?select=hue&limit=1',
    wanted: (status, text) => status === 200 && text.startsWith('{"data":[{"hue":"red"}]'),
  },
  {
    title: 'the old name is gone',
    ddl: 'select 1',
    path: '/item?select=colour',
    wanted: (status, text) => status === 400 && /data\/unknown-column/.test(text),
  },
  {
    title: 'a column changes its type',
    ddl: 'alter table item alter size type text using size::text',
    path: '/item?size=eq.x1',
    wanted: (status, text) => status === 200 && text.startsWith('{"data":[]'),
  },
  {
    title: 'a column is dropped',
    ddl: 'alter table item drop hue',
    path: '/item?select=hue',
    wanted: (status, text) => status === 400 && /data\/unknown-column/.test(text),
  },
  {
    title: 'a table is added',
    ddl: 'create table fresh (id integer primary key); insert into fresh values (1)',
    path: '/fresh/1',
    wanted: (status, text) => status === 200 && text === '{"id":1}',
  },
  {
    title: 'a foreign key is added',
    ddl: 'alter table item add foreign key (tag_id) references tag',
    path: '/item/7?select=id&expand=tag',
    wanted: (status, text) => status === 200 && text === '{"id":7,"tag":{"id":3,"word":"w3"}}',
  },
  {
    title: 'a view is replaced',
    ddl: 'create or replace view big_item as select id, name, tag_id from item',
    path: '/big_item?select=tag_id&limit=1',
    wanted: (status) => status === 200,
  },
  {
    title: 'a view is dropped and made anew in one transaction',
    ddl: 'begin; drop view big_item; create view big_item as select name, id, 1 as one from item; commit',
    path: '/big_item?select=one&limit=1',
    wanted: (status) => status === 200,
  },
  {
    title: 'a table is swapped for another of the same name',
    ddl: `begin; alter table tag rename to old_tag; create table tag (word text, id integer primary key, extra boolean default true);
          insert into tag select word, id from old_tag; commit`,
    path: '/tag?select=extra&limit=1',
    wanted: (status) => status === 200,
  },
  {
    title: 'the primary key becomes another',
    ddl: 'alter table fresh add code text unique; update fresh set code = id; alter table fresh drop constraint fresh_pkey; alter table fresh add primary key (code)',
    path: '/fresh?select=id&first=1&order=code',
    wanted: (status) => status === 200,
  },
  {
    title: 'a table is dropped',
    ddl: 'drop table fresh',
    path: '/fresh',
    wanted: (status, text) => status === 404 && /data\/unknown-table/.test(text),
  },
]

t.test('the schema changes under load', async (t) => {
  const loads = Array.from({ length: 8 }, (_, index) => load(index))
  for (const { title, ddl, path, wanted } of changes) {
    await t.test(`${title}: it is seen without a restart`, async (t) => {
      await sql.query(ddl)
      t.comment(`after ${await becomes(path, wanted)} ms`)
      t.pass('it is seen')
    })
  }
  await t.test('many changes one after the other', async (t) => {
    for (let turn = 0; turn < 30; turn++) {
      await sql.query(`alter table item add extra${turn} integer`)
      if (turn % 2 === 0) await sql.query(`alter table item drop extra${turn}`)
      else await sql.query(`alter table item rename extra${turn} to spare${turn}`)
    }
    await becomes('/item?select=spare29&limit=1', (status) => status === 200)
    t.pass('the last is seen')
  })
  ending.abort()
  await Promise.all(loads)
  t.same(faults.slice(0, 5), [], 'no request for other columns failed meanwhile')
  t.ok(answered > steady.length * changes.length, `${answered} requests were answered meanwhile`)
})
