import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { callPlugin, failure, files, openSockets } from './call-plugin.ts'

t.setTimeout(120_000)
const tls = selfSignedCertificate()

/** Properties of the example of a plugin. */
const exampleOf = (id: string): Record<string, unknown> =>
  parse(catalogue.find(({ manifest }) => manifest.id === id)!.manifest.example).tasks[0].properties

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
