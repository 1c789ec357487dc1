import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { callPlugin, failure } from './call-plugin.ts'

t.setTimeout(120_000)

/** Properties of the example of a plugin. */
const exampleOf = (id: string): Record<string, unknown> =>
  parse(catalogue.find(({ manifest }) => manifest.id === id)!.manifest.example).tasks[0].properties

async function testHttp(
  t: Pick<Test, 'teardown'>,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
) {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const rssFeed = `<?xml version="1.0" encoding="ISO-8859-1"?><rss version="2.0"><channel><title>News</title><link>https://example.com/</link>
<description>All</description>
<item><title>Old</title><guid>1</guid><pubDate>Fri, 01 Jan 2027 00:00:00 GMT</pubDate><enclosure url="https://example.com/a.mp3" length="7" type="audio/mpeg"/></item>
<item><title>Gr\xfc\xdfe</title><link>https://example.com/2</link><pubDate>Sat, 02 Jan 2027 00:00:00 GMT</pubDate><category>x</category></item>
<item><title>When?</title></item></channel></rss>`
const atomFeed = `<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><id>urn:n</id><updated>2027-01-02T00:00:00Z</updated>
<link rel="self" href="https://example.com/self"/><link href="https://example.com/"/>
<entry><title type="html">A &amp;amp; B</title><id>urn:1</id><updated>2027-01-02T00:00:00+01:00</updated><author><name>Ada</name></author>
<link href="https://example.com/1"/><content type="html">&lt;p&gt;x&lt;/p&gt;</content></entry></feed>`
const rdfFeed = `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel rdf:about="x"><title>News</title><link>https://example.com/</link><description>All</description></channel>
<item rdf:about="y"><title>One</title><link>https://example.com/1</link><dc:date>2027-01-01T00:00:00Z</dc:date></item></rdf:RDF>`
const jsonFeed = JSON.stringify({
  version: 'https://jsonfeed.org/version/1.1',
  title: 'News',
  home_page_url: 'https://example.com/',
  items: [
    { id: '1', url: 'https://example.com/1', content_text: 'x', date_published: '2027-01-01T00:00:00Z', tags: ['a'] },
  ],
})

t.test('rss.read', async (t) => {
  let answer: { status?: number; body?: string | Buffer; headers?: Record<string, string> } = {}
  const seen: IncomingMessage['headers'][] = []
  const url = await testHttp(t, (request, response) => {
    seen.push(request.headers)
    response.writeHead(answer.status ?? 200, {
      ETag: '"1"',
      'Last-Modified': 'Fri, 01 Jan 2027 00:00:00 GMT',
      ...answer.headers,
    })
    if (answer.body !== undefined) response.end(answer.body)
  })
  const read = (properties = {}, options = {}) => callPlugin('rss.read', { url, ...properties }, options)

  t.test('RSS, newest first, in its own encoding', async (t) => {
    answer = { body: Buffer.from(rssFeed, 'latin1') }
    const { feed, items, ...told } = await read()
    t.same(feed, { format: 'rss', title: 'News', link: 'https://example.com/', description: 'All' })
    t.same(told, { isModified: true, etag: '"1"', lastModified: 'Fri, 01 Jan 2027 00:00:00 GMT' })
    t.match(items, [
      { id: 'https://example.com/2', title: 'Grüße', publishedAt: '2027-01-02T00:00:00.000Z', categories: ['x'] },
      { id: '1', attachments: [{ url: 'https://example.com/a.mp3', type: 'audio/mpeg', sizeBytes: 7 }] },
      { title: 'When?', publishedAt: null },
    ])
    t.match((await read({ limit: 1 })).items, { length: 1 })
    t.match((await read({ since: '2027-01-01T00:00:00Z' })).items, [{ title: 'Grüße' }])
    t.match((await read({ since: '2027-01-01T00:00:00Z' })).items, { length: 1 })
  })
  t.test('Atom, RDF and JSON Feed have the same fields', async (t) => {
    for (const [body, format, item] of [
      [
        atomFeed,
        'atom',
        {
          id: 'urn:1',
          title: /A/,
          link: 'https://example.com/1',
          publishedAt: '2027-01-01T23:00:00.000Z',
          authors: ['Ada'],
          content: '<p>x</p>',
        },
      ],
      [rdfFeed, 'rdf', { title: 'One', link: 'https://example.com/1', publishedAt: '2027-01-01T00:00:00.000Z' }],
      [jsonFeed, 'json', { id: '1', content: 'x', publishedAt: '2027-01-01T00:00:00.000Z', categories: ['a'] }],
    ] as const) {
      answer = { body }
      t.match(await read(), { feed: { format, title: 'News', link: 'https://example.com/' }, items: [item] }, format)
    }
  })
  t.test('what has not changed is not read again', async (t) => {
    answer = { status: 304, body: '' }
    const given = await read({ etag: '"0"', lastModified: 'Thu, 31 Dec 2026 00:00:00 GMT' })
    t.match(seen.at(-1), { 'if-none-match': '"0"', 'if-modified-since': 'Thu, 31 Dec 2026 00:00:00 GMT' })
    t.match(given, { isModified: false, etag: '"1"', items: [], feed: null })
  })
  t.test('refusals, faults and what is no feed', async (t) => {
    for (const [given, kind, told] of [
      [{ status: 404, body: '' }, 'refused', /404/],
      [{ status: 503, body: '' }, 'unavailable', /503/],
      [{ body: '<html></html>' }, 'refused', /no feed/],
      [{ body: `<!DOCTYPE x [<!ENTITY a "b">]>${rssFeed}` }, 'refused', /entities/],
      [{ body: rssFeed, headers: { 'Content-Type': 'text/xml; charset=nonsense' } }, 'refused', /nonsense/],
    ] as const) {
      answer = given
      await t.rejects(read(), failure(kind, told))
    }
    await t.rejects(read({}, { allow: [] }), failure('refused', /may not be fetched/))
    await t.rejects(read({ limit: 0 }), { message: /properties\.limit/ })
    const controller = new AbortController()
    answer = {}
    setTimeout(() => controller.abort(new Error('cancelled')), 50)
    await t.rejects(read({}, { signal: controller.signal }), { message: /cancelled|abort/ })
  })
  t.test('its example runs', async (t) => {
    answer = { body: atomFeed }
    t.match(await callPlugin('rss.read', { ...exampleOf('rss.read'), url }), { isModified: true })
  })
})

t.test('messages', async (t) => {
  let seen: { url: string; body: unknown } | null = null
  let answer: unknown = 'ok'
  const here = await testHttp(t, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    seen = { url: request.url!, body: JSON.parse(Buffer.concat(chunks).toString('utf8')) }
    response.end(JSON.stringify(answer))
  })
  for (const [id, properties, url, body] of [
    ['slack.message', { webhookUrl: `${here}/hook`, text: 'x' }, '/hook', { text: 'x' }],
    [
      'slack.message',
      { token: 't', channel: 'C', text: 'x', apiUrl: here },
      '/chat.postMessage',
      { channel: 'C', text: 'x' },
    ],
    ['discord.message', { webhookUrl: `${here}/hook`, content: 'x' }, '/hook?wait=true', { content: 'x' }],
    [
      'telegram.message',
      { token: 't', chatId: 5, text: 'x', apiUrl: here },
      '/bott/sendMessage',
      { chat_id: 5, text: 'x', disable_notification: false },
    ],
  ] as const) {
    t.test(`${id} to ${url}`, async (t) => {
      await callPlugin(id, properties)
      t.same(seen, { url, body })
    })
  }
  t.test('teams.message sends an adaptive card', async (t) => {
    await callPlugin('teams.message', { webhookUrl: here, text: 'x' })
    t.match(seen!.body, {
      type: 'message',
      attachments: [{ content: { type: 'AdaptiveCard', body: [{ text: 'x' }] } }],
    })
  })
  t.test('graphql.query gives the data, and fails on errors unless told not to', async (t) => {
    answer = { data: { a: 1 }, errors: [{ message: 'no b' }] }
    const asked = { url: here, query: '{ a b }', variables: { x: 1 } }
    await t.rejects(callPlugin('graphql.query', asked), { message: /answered with errors: no b/ })
    t.same(seen!.body, { query: '{ a b }', variables: { x: 1 } })
    t.same(await callPlugin('graphql.query', { ...asked, failOnErrors: false }), answer)
  })
})
