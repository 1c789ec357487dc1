import t from 'tap'
import { freePort } from '../../ops/local/child.ts'
import { subscribeSse } from '../graphql/subscription-clients.ts'
import { ownPlace, startBusbar } from '../support/command.ts'

t.setTimeout(180_000)

interface Asked {
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what the test is about
  readonly data: any
  readonly errors?: unknown
}

t.test('npm start -- --with-mysql: both databases at once on one machine', async (t) => {
  const { args } = await ownPlace(t)
  const [port, server] = [await freePort(), await freePort()]
  const postgres = `http://127.0.0.1:${args.find((arg) => arg.startsWith('--gateway.graphql.port='))?.split('=')[1]}`
  const mysql = `http://127.0.0.1:${port}`
  const own = [...args, `--gateway.graphql-mysql.port=${port}`, `--mysql.port=${server}`]
  const ask = async (url: string, query: string): Promise<Asked> => {
    const headers = { 'Content-Type': 'application/json' }
    const response = await fetch(`${url}/graphql`, { method: 'POST', headers, body: JSON.stringify({ query }) })
    return (await response.json()) as Asked
  }

  const first = startBusbar(['up', '--with-mysql', ...own])
  await first.printed('Busbar runs')
  const films = await ask(postgres, '{ publicFilmAggregate { count } }')
  t.same(films, { data: { publicFilmAggregate: { count: 120 } } })
  const shop = '{ sampleProduct(where: {id: {eq: "1"}}) { name sampleCategory { name } } }'
  const { data, errors } = await ask(mysql, shop)
  t.equal(errors, undefined)
  t.match(data.sampleProduct, [{ name: 'Anvil', sampleCategory: [{ name: 'Garden' }] }])
  t.match(await ask(mysql, '{ publicFilm { id } }'), { errors: [{ message: /publicFilm/ }] }, 'each has its own')

  const changes = await subscribeSse(mysql, 'subscription { it: sampleProductChanges { operation data { price } } }')
  const films2 = await subscribeSse(postgres, 'subscription { it: publicFilmChanges { operation data { title } } }')
  await ask(mysql, 'mutation { updateSampleProduct(input: {id: "1", price: "130.50"}) { id } }')
  await ask(postgres, 'mutation { updatePublicFilm(input: {id: 1, title: "Mine"}) { id } }')
  t.match(await changes.until((results) => results.length === 1), [
    { data: { it: { operation: 'UPDATE', data: { price: '130.50' } } } },
  ])
  t.match(await films2.until((results) => results.length === 1), [
    { data: { it: { operation: 'UPDATE', data: { title: 'Mine' } } } },
  ])
  for (const each of [changes, films2]) each.close()
  first.process.kill('SIGTERM')
  const { code, stderr } = await first.finished
  t.same([code, stderr], [0, ''])

  const second = startBusbar(['up', '--with-mysql', ...own])
  await second.printed('Busbar runs')
  t.match(await ask(mysql, '{ sampleProduct(where: {id: {eq: "1"}}) { price } }'), {
    data: { sampleProduct: [{ price: '130.50' }] },
  })
  second.process.kill('SIGTERM')
  t.equal((await second.finished).code, 0)
})
