import t from 'tap'
import { findPostgres, postgresVersion } from '../../ops/local/postgres-binaries.ts'
import type { PostgresNode } from '../../workers/provisioning/local/postgres-node.ts'
import { withSession } from '../../workers/provisioning/local/postgres-session.ts'
import { upgradePostgres } from '../../workers/provisioning/local/upgrade/postgres-upgrade.ts'
import { careGround } from './care-node.ts'
import { debianPostgres } from './debian-postgres.ts'

t.setTimeout(240_000)
const debian = await debianPostgres()
const majorOf = (binaries: string) => Number.parseInt(postgresVersion(binaries), 10)
// The registry's package is newer, where there is one for this machine.
const skip = majorOf(debian) >= majorOf(findPostgres()) ? { skip: 'no newer PostgreSQL than Debian’s here' } : {}
const user = { user: 'app', password: 'secret' }

t.test(
  'a major upgrade brings roles, databases, settings and rows; the old server is the way back',
  skip,
  async (t) => {
    const older = careGround(t, debian)
    const newer = careGround(t)
    const from = await older.create('shop')
    const to = await newer.create('next')
    const run = <T>(node: PostgresNode, sql: string, as: object = { user: node.superuser }) =>
      withSession(node, async (client) => (await client.query(sql)).rows as T[], as)
    await run(from, "create role app login createrole password 'secret'")
    await run(
      from,
      'create role reader nologin; grant reader to app with admin option; alter role app set search_path = shop, public',
    )
    await run(from, 'alter database app owner to app')
    await run(from, 'alter schema public owner to app')
    await run(
      from,
      'create schema shop; create table shop.item (id int primary key, name text); create view named as select name from shop.item',
      { user },
    )
    await run(
      from,
      "insert into shop.item select g, 'n' || g from generate_series(1, 1000) g; grant select on shop.item to reader",
      { user },
    )
    await run(to, 'drop database app', { user: to.superuser, database: 'postgres' })
    const { superuser } = from
    const target = { ...to, superuser }
    await run(to, `alter role platform password '${superuser.password}'`, { user: to.superuser, database: 'postgres' })
    await newer.control.stop(to)
    const control = {
      ...older.control,
      start: (node: PostgresNode, options?: object) =>
        (node.dataFolder === to.dataFolder ? newer : older).control.start(node, options),
      stop: (node: PostgresNode, options?: object) =>
        (node.dataFolder === to.dataFolder ? newer : older).control.stop(node, options),
    }
    const steps: string[] = []
    await upgradePostgres({ from, to: target, control, onStep: (step) => steps.push(step) })
    t.strictSame(steps, ['CHECKING', 'COPYING_ROLES', 'COPYING_DATA', 'COMPARING', 'ANALYZING'])
    t.equal(await older.control.pid(from), undefined, 'the old one is stopped')

    await newer.control.start(target)
    const [{ major }] = (await run<{ major: string }>(
      target,
      "select current_setting('server_version_num')::int / 10000 as major",
    )) as [{ major: string }]
    t.equal(Number(major), majorOf(findPostgres()))
    t.match(
      await run(target, 'select count(*)::int, max(name) from item', { user }),
      [{ count: 1000, max: 'n999' }],
      'the old password, the role’s search path',
    )
    t.match(await run(target, 'select count(*)::int from named', { user }), [{ count: 1000 }])
    t.match(
      await run(
        target,
        "select has_table_privilege('reader', 'shop.item', 'select') as may, pg_has_role('app', 'reader', 'member') as member",
      ),
      [{ may: true, member: true }],
    )
    await newer.control.stop(target)

    await older.control.start(from)
    t.match(await run(from, 'select count(*)::int from shop.item'), [{ count: 1000 }], 'the way back')
    await newer.control.start(target)
    await t.rejects(upgradePostgres({ from: target, to: from, control }), { kind: 'refused', message: /./ })
  },
)
