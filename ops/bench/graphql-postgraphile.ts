import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Pool } from 'pg'

/**
 * PostGraphile as a peer, in a process of its own: its default preset and its aggregates on bare `node:http`, which is its fastest server;
 * production mode (GRAPHILE_ENV and NODE_ENV), no watching, no explaining, no tokens, so that it needs no transaction for a read.
 */
const [folder = '', url = '', poolSize = '10'] = process.argv.slice(2)
const load = createRequire(join(folder, 'package.json'))
const { postgraphile } = load('postgraphile')
const { PostGraphileAmberPreset } = load('postgraphile/presets/amber')
const { makePgService } = load('postgraphile/adaptors/pg')
const { grafserv } = load('postgraphile/grafserv/node')
const { PgAggregatesPreset } = load('@graphile/pg-aggregates')

const pool = new Pool({ connectionString: url, max: Number(poolSize) })
const instance = postgraphile({
  extends: [PostGraphileAmberPreset, PgAggregatesPreset],
  pgServices: [makePgService({ pool, schemas: ['public'] })],
  grafserv: { watch: false, graphiql: false, websockets: false, graphqlPath: '/graphql' },
  grafast: { explain: false },
})
const server = createServer()
await instance.createServ(grafserv).addTo(server)
await instance.getSchema()
server.listen(0, '127.0.0.1', () => {
  process.send?.({ kind: 'ready', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
})
process.on('disconnect', () => process.exit())
