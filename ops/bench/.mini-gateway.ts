import { createHttpServer } from '../../gateways/http/server.ts'
import { createAuthenticator } from '../../gateways/http/auth.ts'
import { openDatabase } from '../../gateways/data/postgres-run.ts'
import { statement } from '../../gateways/data/statement.ts'
import { restCases, jwtSecret } from './dataset.ts'
const [url = '', pool = '10'] = process.argv.slice(2)
const db = await openDatabase({ connection: { connectionString: url }, poolSize: Number(pool) })
const app = await createHttpServer({ maxBodyBytes: 1e6, corsOrigins: ['*'], onFault: (f) => console.log(f) })
const auth = createAuthenticator({ secret: jwtSecret })
const stmts = restCases.map((c) => statement(c.floorSql))
const handler = async (request: any, reply: any) => {
  const [, index, n] = request.raw.url.split('/')
  const c = restCases[Number(index)]!
  const p = await auth.authenticate(request.headers)
  const r = await db.run(stmts[Number(index)]!, c.floorParameters(Number(n)), { readOnly: c.method === 'GET', role: p.role!, claims: p.claims!, weight: Number(index) === 2 ? 'heavy' : 'cheap' })
  return reply.code(c.status).type('application/json; charset=utf-8').send(r.rows[0]![0])
}
app.get('/:a/:b', handler); app.post('/:a/:b', handler)
await app.listen({ port: 0, host: '127.0.0.1' })
process.send?.({ kind: 'ready', url: `http://127.0.0.1:${(app.server.address() as any).port}` })
