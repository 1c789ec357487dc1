import { SignJWT } from 'jose'
import t from 'tap'
import { tableKey } from '../../gateways/data/catalog.ts'
import { accessTo } from '../../gateways/data/changes-access.ts'
import { introspectMysql, type MysqlCatalogClient } from '../../gateways/data/mysql-introspect.ts'
import { openMysql } from '../../gateways/data/mysql-open.ts'
import { isRealMysql } from '../support/mysql.ts'
import { openMysqlGateway, testMysqlServer } from './gateway.ts'

t.setTimeout(60_000)

const { address, sql } = await testMysqlServer(
  t,
  `create table open_item (id int primary key auto_increment, name varchar(20));
   create table closed_item (id int primary key auto_increment, name varchar(20));
   create table slow_item (id int primary key, name varchar(20));
   create trigger hold before insert on slow_item for each row set new.name = sleep(600);
   insert into open_item (name) values ('o'); insert into closed_item (name) values ('c');
   create role everybody; grant select on public.* to everybody;
   create role reader; grant select on public.open_item to reader;
   create role writer; grant select, insert on public.open_item to writer; grant select, insert on public.slow_item to writer;
   create role stranger; grant all on public.* to stranger;
   create user gateway@'%' identified by 'pass word'; grant everybody to gateway@'%'; grant reader to gateway@'%'; grant writer to gateway@'%';
   ${isRealMysql ? "set default role everybody to gateway@'%'" : "set default role everybody for gateway@'%'"};
   grant replication slave, replication client on *.* to gateway@'%';
   create database busbar; grant create, select, insert, update, delete on busbar.* to gateway@'%';
   create user owner@'%' identified by 'pass word'; grant all on *.* to owner@'%'; grant reader to owner@'%'`,
)

const secret = 'a secret of at least thirty-two bytes'
const as = async (role?: string) => {
  const claims = { sub: 'ada', ...(role === undefined ? {} : { role }) }
  const token = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(new TextEncoder().encode(secret))
  return { Authorization: `Bearer ${token}` }
}
const account = { ...address, user: 'gateway', password: 'pass word' }
// One connection, so that each call has the one that the call before it had.
const options = { poolSize: 1, statementTimeoutMs: 1_000, jwt: { secret } }
const { ask } = await openMysqlGateway(t, account, options)
const open = '{ publicOpen_item { name } }'
const closed = '{ publicClosed_item { name } }'
const insert = 'mutation { createPublicOpen_item(input: {name: "new"}) { name } }'

const codeOf = ({ errors }: { readonly errors?: { extensions: { code: string } }[] }) => errors?.[0]?.extensions.code

t.test('each caller has the rights of their role, and the next one on the connection their own', async (t) => {
  const steps: readonly (readonly [role: string | undefined, query: string, code: string | undefined])[] = [
    ['reader', open, undefined],
    ['reader', closed, 'data/forbidden'],
    [undefined, closed, undefined],
    ['reader', insert, 'data/forbidden'],
    ['writer', insert, undefined],
    [undefined, insert, 'data/forbidden'],
    ['writer', closed, 'data/forbidden'],
    ['stranger', open, 'data/forbidden'],
    [undefined, closed, undefined],
    ['nowhere', open, 'data/forbidden'],
    ['none', closed, 'http/unauthorized'],
    ['ALL', closed, 'data/forbidden'],
    ['everybody', closed, undefined],
    ['reader`; set role `writer', open, 'data/forbidden'],
    ['reader', closed, 'data/forbidden'],
  ]
  for (const [role, query, code] of steps)
    t.equal(codeOf(await ask(query, {}, await as(role))), code, `${role ?? 'without a role'}: ${query}`)
})

t.test('nor does a role stay after a statement that was stopped, or a write with a key', async (t) => {
  const stopped = await ask('mutation { createPublicSlow_item(input: {id: 1}) { id } }', {}, await as('writer'))
  t.equal(codeOf(stopped), 'data/statement-timeout')
  t.equal(codeOf(await ask(insert, {}, await as())), 'data/forbidden')
  for (const replayed of [false, true]) {
    const { data } = await ask(insert, {}, { ...(await as('writer')), 'Idempotency-Key': 'role-1' })
    t.same(data, { createPublicOpen_item: { name: 'new' } }, `replayed: ${replayed}`)
    t.equal(codeOf(await ask(insert, {}, await as())), 'data/forbidden')
  }
  t.equal(codeOf(await ask(insert, {}, { ...(await as('reader')), 'Idempotency-Key': 'role-2' })), 'data/forbidden')
  t.equal(codeOf(await ask(insert, {}, await as())), 'data/forbidden')
})

t.test('the changes of a table are for those who may read all of it', async (t) => {
  const database = await openMysql({ connection: account, poolSize: 1 })
  t.teardown(() => database.close())
  const client = { query: async (text: string, values: readonly unknown[]) => (await sql.query(text, [...values]))[0] }
  const { tables } = await introspectMysql(client as MysqlCatalogClient, ['public'])
  const access = (table: string, role?: string) =>
    accessTo(tables.get(tableKey('public', table))!, database, {
      readOnly: true,
      ...(role === undefined ? {} : { role }),
    })
  t.same(await access('open_item', 'reader'), { byRow: false, columns: null })
  await t.rejects(access('closed_item', 'reader'), { code: 'data/forbidden' })
  await t.rejects(access('open_item', 'stranger'), { code: 'data/forbidden' })
  t.same(await access('closed_item'), { byRow: false, columns: null })
})

t.test('a stranger without a token is told that one may help', async (t) => {
  const anonymous = await openMysqlGateway(t, account, { ...options, jwt: { secret, anonymousRole: 'reader' } })
  t.equal(codeOf(await anonymous.ask(open)), undefined)
  t.equal(codeOf(await anonymous.ask(closed)), 'http/unauthorized')
})

t.test('an account with rights of its own serves no roles, since they would take none away', async (t) => {
  const owner = await openMysqlGateway(t, { ...account, user: 'owner' }, options)
  t.equal(codeOf(await owner.ask(closed, {}, await as())), undefined)
  const refused = await owner.ask(open, {}, await as('reader'))
  t.match(refused.errors, [{ message: /rights of its own/, extensions: { code: 'data/forbidden', status: 403 } }])
})
