import { createHash } from 'node:crypto'
import type { SentMessageInfo } from 'nodemailer/lib/smtp-connection'
import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import {
  accountProperties,
  needProperties,
  type ServerPlace,
  serverPlace,
  TlsSettings,
  tlsOptions,
} from '../server-properties.ts'
import { readMails, readProperties } from './mail-read.ts'
import { composeMail, type MailInput, mailProperties } from './smtp-message.ts'

const Input = Type.Object(
  {
    url: Type.String({
      description:
        'The mail server: `smtp://` or `smtps://` to send, `imap://` or `imaps://` to read; those with an s speak TLS from the start',
      examples: ['smtp://mail.example.com:587'],
    }),
    operation: Type.Union(
      [
        Type.Literal('send', { description: 'Sends a mail' }),
        Type.Literal('read', { description: 'Reads mails over IMAP' }),
      ],
      { description: 'What to do', default: 'send', examples: ['read'] },
    ),
    ...accountProperties,
    tls: Type.Optional(TlsSettings),
    encryption: Type.Union([Type.Literal('required'), Type.Literal('offered'), Type.Literal('none')], {
      description:
        '`required` fails without TLS, `offered` uses it when there is some and never sends a password without, `none` sends all in the clear',
      default: 'offered',
      examples: ['required'],
    }),
    ...mailProperties,
    ...readProperties,
    timeoutMs: Type.Integer({
      description: 'Longest silence of the server, milliseconds',
      default: 60_000,
      minimum: 1,
      examples: [10_000],
    }),
  },
  { additionalProperties: false },
)
type Given = TaskRun<Static<typeof Input>>

/** Source: RFC 5321, RFC 3207 and RFC 4954; RFC 3501 to read */
export const smtp = definePlugin({
  id: 'smtp.send',
  name: 'SMTP',
  category: 'Protocol',
  description:
    'Sends a mail: text, HTML, attachments from files of other tasks; every attempt of a task has the same Message-ID, by which ' +
    'receivers tell doubles. Reads mails over IMAP, their attachments into files.',
  needs:
    'A mail server that takes mails for the recipients, or one with IMAP. Reading is tested at the level of the protocol',
  effect: 'once',
  input: Input,
  output: Type.Object({
    messageId: Type.Union([Type.String(), Type.Null()], {
      description: 'send: Message-ID, with its brackets',
      examples: ['<4f1d@example.com>'],
    }),
    accepted: Type.Array(Type.String(), { description: 'Recipients that were taken', examples: [['ada@example.com']] }),
    rejected: Type.Array(Type.String(), { description: 'Recipients that were not', examples: [[]] }),
    response: Type.String({ description: 'Last words of the server', examples: ['250 OK: queued'] }),
    mails: Type.Array(Type.Unknown(), {
      description: 'read: the mails, their attachments as files',
      examples: [[{ uid: 7, from: 'Ada <ada@example.com>', subject: 'Order', text: 'Two apples', attachments: [] }]],
    }),
  }),
  example: `name: send-mail
tasks:
  - name: send
    type: smtp.send
    properties:
      url: smtp://localhost:1025
      from: Busbar <busbar@example.com>
      to: [ada@example.com]
      subject: It is done
      text: All rows are in.
`,
  async run(given) {
    const { input, idempotencyKey, signal } = given
    const nothing = { messageId: null, accepted: [], rejected: [], response: '', mails: [] }
    if (input.operation === 'read') {
      const mails = await readMails({ given, place: serverPlace(input, { imap: 143, imaps: 993 }) })
      return { ...nothing, mails }
    }
    needProperties(input, ['from'])
    const id = createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 32)
    const { message, envelope, messageId } = await composeMail(given as unknown as TaskRun<MailInput>, id)
    const place = serverPlace(input, { smtp: 587, smtps: 465 })
    try {
      const sent = await send(given, place, { message, envelope })
      const { accepted, rejected, response } = sent
      return {
        ...nothing,
        messageId,
        accepted: accepted.map(String),
        rejected: rejected.map(String),
        response: response ?? '',
      }
    } catch (error) {
      signal.throwIfAborted()
      throw smtpFailure(error)
    }
  },
})

type Mail = Pick<Awaited<ReturnType<typeof composeMail>>, 'message' | 'envelope'>

async function send(given: Given, place: ServerPlace, { message, envelope }: Mail): Promise<SentMessageInfo> {
  const { input, signal, services } = given
  const { default: SmtpConnection } = await import('nodemailer/lib/smtp-connection')
  const socket = await services.net.connect({ host: place.host, port: place.port, signal })
  const connection = new SmtpConnection({
    connection: socket,
    host: place.host,
    secure: place.scheme === 'smtps',
    requireTLS: input.encryption === 'required',
    ignoreTLS: input.encryption === 'none',
    tls: tlsOptions(input.tls ?? {}, place.host),
    name: 'busbar',
    greetingTimeout: input.timeoutMs,
    socketTimeout: input.timeoutMs,
  })
  const { promise: broken, reject } = Promise.withResolvers<never>()
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  connection.on('error', reject)
  connection.on('end', () => reject(new TaskFailure('unavailable', 'The mail server closed the connection')))
  broken.catch(() => undefined)
  try {
    await Promise.race([calling<void>((done) => connection.connect(done)), broken])
    await Promise.race([logIn(connection, place, input), broken])
    return await Promise.race([calling<SentMessageInfo>((done) => connection.send(envelope, message, done)), broken])
  } finally {
    signal.removeEventListener('abort', stop)
    if (!signal.aborted) connection.quit()
    connection.close()
    socket.destroy()
  }
}

type Connection = InstanceType<Awaited<typeof import('nodemailer/lib/smtp-connection')>['default']>

async function logIn(connection: Connection, { user, password }: ServerPlace, { encryption }: Given['input']) {
  if (user === '') return
  if (!connection.secure && encryption !== 'none')
    throw new TaskFailure('refused', 'The mail server offers no TLS, and the password is not sent without')
  await calling<unknown>((done) => connection.login({ user, pass: password }, done))
}

function calling<T>(start: (done: (error?: Error | null, value?: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => start((error, value) => (error ? reject(error) : resolve(value as T))))
}

/** 4xx can pass and 5xx cannot. Source: RFC 5321 section 4.2.1 */
function smtpFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { responseCode, code = '', message } = error as { responseCode?: number; code?: string; message: string }
  if (code === 'ETLS' || /CERT|SSL|TLS|SELF_SIGNED/.test(code) || /certificate/i.test(message))
    return new TaskFailure('refused', `TLS is not possible: ${message}`, error)
  if (responseCode !== undefined)
    return new TaskFailure(
      responseCode < 500 ? 'unavailable' : 'refused',
      `The mail server refused it: ${message}`,
      error,
    )
  if (code === 'ETIMEDOUT') return new TaskFailure('timeout', 'The mail server does not answer', error)
  if (/^E(CONNECTION|SOCKET|CONN|PIPE|STREAM|PROTOCOL)/.test(code))
    return new TaskFailure('unavailable', `The connection broke: ${message}`, error)
  return new TaskFailure('refused', message, error)
}
