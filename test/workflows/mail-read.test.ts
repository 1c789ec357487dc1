import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { selfSignedCertificate } from '../support/certificate.ts'
import { testImap } from '../support/imap-wire.ts'
import { callPlugin, failure, files, openSockets } from './call-plugin.ts'

// At the level of the protocol: Debian's mail servers keep their files in places of the system.

const tls = selfSignedCertificate()
const mail = (uid: number, from: string, subject: string, ...flags: string[]) => ({
  uid,
  flags: new Set(flags),
  source: [
    `From: ${from}`,
    'To: Team <team@example.com>',
    `Subject: ${subject}`,
    `Message-ID: <${uid}@example.com>`,
    'Date: Fri, 01 Jan 2027 00:00:00 +0000',
    'Content-Type: multipart/mixed; boundary=x',
    '',
    '--x',
    'Content-Type: text/plain; charset=utf-8',
    '',
    `text of ${uid}`,
    '--x',
    'Content-Type: application/octet-stream; name=a.bin',
    'Content-Disposition: attachment; filename=a.bin',
    'Content-Transfer-Encoding: base64',
    '',
    'AAEC/w==',
    '--x--',
    '',
  ].join('\r\n'),
})
const mails = [
  mail(3, 'Ada <ada@example.com>', 'Order'),
  mail(5, 'grace@example.com', '=?UTF-8?Q?Gr=C3=BC=C3=9Fe?=', '\\Seen'),
  mail(7, 'ada@example.com', 'Other'),
]
const account = { user: 'app', password: 'right-word' }
let onCommand: (name: string) => void = () => undefined
const server = await testImap(t, { mails, account, tls, onCommand: (name) => onCommand(name) })
const read = (properties: Record<string, unknown>, options = {}) =>
  callPlugin(
    'smtp.send',
    { operation: 'read', url: server.url, ...account, tls: { ca: tls.certificate }, ...properties },
    options,
  )

t.test('what nobody has seen, with its parts, over TLS', async (t) => {
  const { mails: found } = await read({})
  t.match(found, [
    {
      uid: 3,
      messageId: '<3@example.com>',
      from: 'Ada <ada@example.com>',
      to: ['Team <team@example.com>'],
      subject: 'Order',
      date: /^2027-01-01/,
      receivedAt: '2027-01-01T00:00:00.000Z',
      text: /^text of 3/,
      html: null,
      isTooLarge: false,
      attachments: [{ name: 'a.bin', contentType: 'application/octet-stream', sizeBytes: 4, uri: /^busbar:/ }],
    },
    { uid: 7 },
  ])
  const [{ attachments }] = found as [{ attachments: [{ uri: string }] }]
  t.same([...files.get(attachments[0].uri)!], [0, 1, 2, 255])
  t.ok(server.commands.includes('STARTTLS') && server.commands.some((each) => each.startsWith('EXAMINE')))
  t.notOk(
    server.commands.some((each) => each.startsWith('UID STORE')),
    'nothing is marked',
  )
})

t.test('by sender, subject, and what came after another; marked when asked to', async (t) => {
  const uids = async (properties: Record<string, unknown>) =>
    ((await read(properties)).mails as { uid: number }[]).map(({ uid }) => uid)
  t.same(await uids({ unseenOnly: false }), [3, 5, 7])
  t.same(await uids({ unseenOnly: false, limit: 1 }), [3])
  t.same(await uids({ unseenOnly: false, afterUid: 3 }), [5, 7])
  t.same(await uids({ unseenOnly: false, afterUid: 7 }), [])
  t.same(await uids({ fromContains: 'ada', subjectContains: 'Oth' }), [7])
  t.match(await read({ maxBytes: 10, limit: 1 }), { mails: [{ uid: 3, isTooLarge: true }] })
  t.match(await read({ unseenOnly: false, afterUid: 3, limit: 1 }), { mails: [{ subject: 'Grüße' }] })
  t.same(await uids({ markSeen: true, limit: 1 }), [3])
  t.same(await uids({}), [7])
})

t.test('what it refuses, and what can pass', async (t) => {
  const refused = await read({ password: 'hidden-word' }).catch((error) => error)
  t.match(refused, { kind: 'refused', message: /refused the account/ })
  t.notMatch(`${refused.message} ${refused.cause?.message}`, /hidden-word/)
  await t.rejects(read({ folder: 'None' }), failure('refused', /no such folder/))
  await t.rejects(read({ tls: {} }), failure('refused', /TLS is not possible/))
  await t.rejects(read({ url: 'smtp://a' }), failure('refused', /properties\.url/))
  await t.rejects(read({ url: 'imap://127.0.0.1:1' }), failure('unavailable', /ECONNREFUSED/))
  await t.rejects(read({}, { allow: [] }), failure('refused', /may not be connected to/))
  const plain = await testImap(t, { mails, account })
  await t.rejects(read({ url: plain.url }), failure('refused', /TLS is not possible/))
  t.notOk(
    plain.commands.some((each) => each.startsWith('LOGIN')),
    'no password without TLS',
  )
  t.match(await read({ url: plain.url, encryption: 'none' }), { mails: [{ uid: 7 }] })
})

t.test('cancelled, it leaves no connection', async (t) => {
  const before = openSockets()
  const controller = new AbortController()
  onCommand = (name) => {
    if (name === 'UID SEARCH') controller.abort(new Error('cancelled'))
  }
  await t.rejects(read({}, { signal: controller.signal }), { message: 'cancelled' })
  while (openSockets() > before) await delay(5)
})
