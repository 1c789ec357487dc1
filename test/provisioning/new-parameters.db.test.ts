import { tmpdir } from 'node:os'
import t from 'tap'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { checkNewParameters } from '../../workers/provisioning/local/parameters/new-parameters.ts'
import type { LocalPlace } from '../../workers/provisioning/local/place.ts'
import { mariadbHere } from './care-mysql-node.ts'

const account = unprivilegedAccount(tmpdir())
const binaries = mariadbHere()
// Nothing but its programs is asked for here.
const place = {
  account,
  postgres: async () => findAllPostgres('/usr/bin:/bin', account),
  mysql: async () => (binaries === undefined ? null : { version: '10.11.0', binaries }),
} as Partial<LocalPlace> as LocalPlace

const table: readonly (readonly [databaseType: string, parameters: Record<string, string>, refused: RegExp | null])[] = [
  ['POSTGRESQL', { work_mem: '8MB', jit: 'off', search_path: "a'b\\c" }, null],
  ['POSTGRESQL', { jit: 'off', work_mem: 'much' }, /^work_mem: invalid value for parameter/],
  ['POSTGRESQL', { nonsense_x: '1' }, /^nonsense_x: unrecognized/],
  ['POSTGRESQL', { max_connections: '99999999' }, /^max_connections: .* outside the valid range/],
  ['POSTGRESQL', { port: '1' }, /^port: .* managed by the platform/],
  ['POSTGRESQL', { include: '/etc/hostname' }, /^include: There is no parameter/],
  ['POSTGRESQL', { 'work_mem = 1\nport': '1' }, /There is no parameter/],
  ['POSTGRESQL', { work_mem: '1\nport = 1' }, /^work_mem: .* one line/],
  ['MYSQL', { max_connections: '77', 'innodb-buffer-pool-size': '64M' }, null],
  ['MYSQL', { max_connections: '77', nonsense: '1' }, /^nonsense: There is no parameter/],
  ['MYSQL', { max_connections: 'x' }, /^max_connections: The server refuses/],
  ['MYSQL', { 'bind-address': '0.0.0.0' }, /^bind-address: .* managed by the platform/],
  ['MONGODB', { whatever: '1' }, null],
] // biome-ignore format: a table

t.test('parameters of a server that is not there yet are read by its program', async (t) => {
  for (const [databaseType, parameters, refused] of table) {
    if (databaseType === 'MYSQL' && binaries === undefined) continue
    const checked = await checkNewParameters(place, { databaseType, version: null, parameters }).then(
      () => null,
      ({ field, message }) => `${String(field).replace('parameters.', '')}: ${message}`,
    )
    if (refused === null) t.equal(checked, null, JSON.stringify(parameters))
    else t.match(checked, refused)
    t.notMatch(checked ?? '', /\/tmp|bb-/, 'and tells no path')
  }
})
