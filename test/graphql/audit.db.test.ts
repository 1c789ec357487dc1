import { serverAudits } from 'graphql-http'
import pg from 'pg'
import t from 'tap'
import { startGraphqlGateway } from '../../gateways/graphql/server.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const sql = new pg.Client({ connectionString: server.url })
await sql.connect()
await sql.query('create table film (id int primary key, title text)')
await sql.query(`insert into film values (1, 'Alien')`)
await sql.end()
const gateway = await startGraphqlGateway({
  host: '127.0.0.1',
  port: 0,
  connection: { connectionString: server.url },
  schemas: ['public'],
  naming: 'spec',
  defaultPageSize: 100,
  maxPageSize: 1000,
  maxBodyBytes: 1_048_576,
  corsOrigins: ['*'],
  jwt: {},
  emitCommands: false,
  onObservation: (observation) => observation.type === 'request-fault' && t.fail(String(observation.error)),
})
t.teardown(() => gateway.stop())
const url = `${gateway.url}/graphql`

t.test('GraphQL over HTTP: every audit of graphql-http', async (t) => {
  for (const audit of serverAudits({ url, fetchFn: fetch })) {
    const result = await audit.fn()
    t.equal(result.status, 'ok', `${audit.id} ${audit.name}${'reason' in result ? `: ${result.reason}` : ''}`)
  }
})

t.test('a query by GET, a mutation by GET, a batch, the playground', async (t) => {
  const read = await fetch(`${url}?query=${encodeURIComponent('{ publicFilm { title } }')}`)
  t.same(await read.json(), { data: { publicFilm: [{ title: 'Alien' }] } })
  const write = await fetch(
    `${url}?query=${encodeURIComponent('mutation { deletePublicFilm(input: { id: 1 }) { id } }')}`,
  )
  t.equal(write.status, 405)
  const batch = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify([{ query: '{ publicFilm { id } }' }, { query: '{ __typename }' }]),
  })
  t.same(await batch.json(), [{ data: { publicFilm: [{ id: 1 }] } }, { data: { __typename: 'Query' } }])
  const page = await fetch(url, { headers: { Accept: 'text/html' } })
  t.match(page.headers.get('content-type'), /text\/html/)
  const html = await page.text()
  t.match(html, /graphiql/i)
  t.notMatch(html, /https?:\/\/(?:unpkg|cdn)\./, 'nothing is loaded from elsewhere')
})
