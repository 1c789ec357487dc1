import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { type KnownPlugins, readFlow } from '../../schemas/workflows/flow-yaml.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { callPlugin, failure, files, openSockets } from './call-plugin.ts'

t.setTimeout(120_000)
const tls = selfSignedCertificate()
const manifests = catalogue.map(({ manifest }) => manifest)
const plugins: KnownPlugins = { all: () => manifests, find: (type) => manifests.find(({ id }) => id === type) }

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

interface Taken {
  readonly from: string
  readonly to: readonly string[]
  readonly user: string | null
  readonly secure: boolean
  readonly text: string
}

/** A mail server that keeps what it takes. */
async function testMail(t: Pick<Test, 'teardown'>, options: SMTPServerOptions = {}) {
  const taken: Taken[] = []
  const server = new SMTPServer({
    key: tls.key,
    cert: tls.certificate,
    authOptional: true,
    disableReverseLookup: true,
    closeTimeout: 50,
    onAuth({ username, password }, _session, done) {
      const isRight = username === 'app' && password === 'right-word'
      done(isRight ? null : new Error('who are you'), { user: username })
    },
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream
        .on('data', (chunk: Buffer) => chunks.push(chunk))
        .on('end', () => {
          const { mailFrom, rcptTo } = session.envelope
          const from = mailFrom === false ? '' : mailFrom.address
          const text = Buffer.concat(chunks).toString('utf8')
          taken.push({
            from,
            to: rcptTo.map(({ address }) => address),
            user: (session.user as string) ?? null,
            secure: session.secure,
            text,
          })
          done()
        })
    },
    ...options,
  })
  server.on('error', () => undefined)
  const listening = server.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())))
  const { port } = listening.address() as AddressInfo
  return { port, url: `smtp://127.0.0.1:${port}`, taken }
}

t.test('smtp.send', async (t) => {
  const mail = { from: 'Büro <office@example.com>', to: ['Ada <ada@example.com>'], subject: 'Grüße', text: 'Hallo' }
  const send = (properties: Record<string, unknown>, options = {}) =>
    callPlugin('smtp.send', { ...mail, ...properties }, options)
  const trusted = { ca: tls.certificate }

  t.test('a mail with everything, over TLS, with the same Message-ID in every attempt', async (t) => {
    const server = await testMail(t)
    files.set('busbar:///files/report', Buffer.from([0, 1, 2, 255]))
    const asked = {
      url: server.url,
      user: 'app',
      password: 'right-word',
      tls: trusted,
      encryption: 'required',
      cc: ['grace@example.com'],
      bcc: ['audit@example.com', 'ada@example.com'],
      replyTo: 'team@example.com',
      html: '<p>Hallo <img src="cid:logo"></p>',
      headers: { 'In-Reply-To': '<1@example.com>' },
      attachments: [
        { name: 'report.bin', file: 'busbar:///files/report' },
        { name: 'Übersicht.csv', text: 'a,b', contentType: 'text/csv', cid: 'logo' },
      ],
    }
    const first = await send(asked)
    const again = await send(asked)
    t.match(first, {
      accepted: ['ada@example.com', 'grace@example.com', 'audit@example.com'],
      rejected: [],
      response: /^250/,
    })
    t.equal(again.messageId, first.messageId)
    t.not((await send(asked, { key: 'e2/call' })).messageId, first.messageId)
    const [{ from, to, user, secure, text }] = server.taken as [Taken]
    t.same([from, to, user, secure], ['office@example.com', first.accepted, 'app', true])
    for (const line of [
      `Message-ID: ${first.messageId}`,
      'From: =?UTF-8?Q?B=C3=BCro?= <office@example.com>',
      'To: Ada <ada@example.com>',
      'Cc: grace@example.com',
      'Reply-To: team@example.com',
      'Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=',
      'In-Reply-To: <1@example.com>',
      'AAEC/w==',
    ])
      t.ok(text.includes(`\r\n${line}`) || text.startsWith(line), line)
    t.notMatch(text, /audit@/, 'blind copies are not told')
  })
  t.test('TLS from the start, and none at all', async (t) => {
    const secure = await testMail(t, { secure: true })
    await send({ url: secure.url.replace('smtp:', 'smtps:'), tls: trusted })
    t.match(secure.taken, [{ secure: true }])
    const plain = await testMail(t, { hideSTARTTLS: true, disabledCommands: ['STARTTLS'], allowInsecureAuth: true })
    await send({ url: plain.url })
    await send({ url: plain.url, user: 'app', password: 'right-word', encryption: 'none' })
    t.match(plain.taken, [
      { secure: false, user: null },
      { secure: false, user: 'app' },
    ])
    await t.rejects(send({ url: plain.url, encryption: 'required' }), failure('refused', /TLS is not possible/))
    await t.rejects(
      send({ url: plain.url, user: 'app', password: 'right-word' }),
      failure('refused', /not sent without/),
    )
    await t.rejects(
      send({ url: secure.url.replace('smtp:', 'smtps:') }),
      failure('refused', /TLS is not possible: .*self.signed/),
    )
  })
  t.test('refusals are final, and what can pass is not', async (t) => {
    const refuse = (responseCode: number) => Object.assign(new Error('no'), { responseCode })
    const server = await testMail(t, {
      onRcptTo({ address }, _session, done) {
        done(address.startsWith('never') ? refuse(550) : address.startsWith('later') ? refuse(451) : null)
      },
      onMailFrom({ address }, _session, done) {
        done(address.startsWith('bad') ? refuse(553) : null)
      },
    })
    const to = { url: server.url, tls: trusted }
    await t.rejects(send({ ...to, to: ['never@example.com'] }), failure('refused', /550/))
    await t.rejects(send({ ...to, to: ['later@example.com'] }), failure('unavailable', /451/))
    await t.rejects(send({ ...to, from: 'bad@example.com' }), failure('refused', /553/))
    t.match(await send({ ...to, to: ['ada@example.com', 'never@example.com'] }), {
      accepted: ['ada@example.com'],
      rejected: ['never@example.com'],
    })
    const wrong = await send({ ...to, user: 'app', password: 'hidden-word' }).catch((error) => error)
    t.match(wrong, { kind: 'refused', message: /535/ })
    t.notMatch(`${wrong.message} ${wrong.cause?.message}`, /hidden-word|aGlkZGVuLXdvcmQ/)
  })
  t.test('nothing of a header ends it, and no address is two', async (t) => {
    const server = await testMail(t)
    for (const [properties, told] of [
      [{ subject: 'a\r\nBcc: b@example.com' }, /line break/],
      [{ to: ['ada@example.com\nBcc: b@example.com'] }, /line break/],
      [{ from: 'a\r\nX: b <a@example.com>' }, /line break/],
      [{ headers: { 'X-A': 'a\nb: c' } }, /line break/],
      [{ attachments: [{ name: 'a\r\nb', text: '' }] }, /line break/],
      [{ headers: { Bcc: 'b@example.com' } }, /cannot be set/],
      [{ headers: { 'X A:': 'b' } }, /cannot be set/],
      [{ to: ['ada@example.com, b@example.com'] }, /no mail address/],
      [{ to: ['ada'] }, /no mail address/],
      [{ to: [] }, /properties\.to is needed/],
      [{ attachments: [{ name: 'a' }] }, /either file or text/],
    ] as const)
      await t.rejects(
        send({ url: server.url, tls: trusted, ...properties }),
        failure('refused', told),
        JSON.stringify(properties),
      )
    await t.rejects(send({ url: server.url, nonsense: 1 }), { message: /properties/ })
    t.equal(server.taken.length, 0)
  })
  t.test('cancelled, silent, away, not allowed', async (t) => {
    const controller = new AbortController()
    const server = await testMail(t, { onMailFrom: () => controller.abort(new Error('cancelled')) })
    const before = openSockets()
    const to = { url: server.url, tls: trusted }
    await t.rejects(send(to, { signal: controller.signal }), { message: 'cancelled' })
    while (openSockets() > before) await delay(5)
    await t.rejects(send({ ...to, timeoutMs: 50 }), failure('timeout'))
    await t.rejects(send({ url: 'smtp://127.0.0.1:1' }), failure('unavailable', /ECONNREFUSED/))
    await t.rejects(send(to, { allow: [] }), failure('refused', /may not be connected to/))
  })
  t.test('its example runs', async (t) => {
    const server = await testMail(t, { hideSTARTTLS: true, disabledCommands: ['STARTTLS'] })
    await callPlugin('smtp.send', { ...exampleOf('smtp.send'), url: server.url })
    t.match(server.taken, [{ to: ['ada@example.com'] }])
  })
})

t.test(
  'of databases and protocols each property is described with an example, and each example is a flow',
  async (t) => {
    const mine = catalogue.filter(({ manifest }) => /^(Databases|Protocol)$/.test(manifest.category))
    t.equal(mine.length, 15)
    for (const { manifest } of mine) {
      t.same(
        [...undescribed(manifest.inputSchema, 'input'), ...undescribed(manifest.outputSchema, 'output')],
        [],
        manifest.id,
      )
      t.same(readFlow(manifest.example, plugins).problems, [], manifest.id)
      t.ok(manifest.needs !== null || manifest.id === 'db.sqlite' || manifest.id === 'graphql.query', manifest.id)
    }
  },
)

interface Schema {
  readonly description?: string
  readonly examples?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
}

/** Paths of properties without a description or an example. */
function undescribed(schema: unknown, path: string): string[] {
  const { properties = {}, items } = schema as Schema
  return Object.entries({ ...properties, ...items?.properties }).flatMap(([name, property]) => {
    const isDescribed = (property.description ?? '') !== '' && (property.examples ?? []).length > 0
    return [...(isDescribed ? [] : [`${path}.${name}`]), ...undescribed(property, `${path}.${name}`)]
  })
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
