import type { ImapFlow, SearchObject } from 'imapflow'
import { type Static, Type } from 'typebox'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { type ServerPlace, type TlsSettings, tlsOptions } from '../server-properties.ts'
import { threadModule } from '../thread-module.ts'

const inThread = threadModule<typeof import('./mail-thread.ts')>(new URL('./mail-thread.ts', import.meta.url))

/** Which mails are read. */
export const readProperties = {
  folder: Type.String({ description: 'read: folder', default: 'INBOX', examples: ['Archive'] }),
  unseenOnly: Type.Boolean({ description: 'read: only mails nobody has seen', default: true, examples: [false] }),
  afterUid: Type.Optional(
    Type.Integer({
      description: 'read: only mails after this one, `uid` of an earlier run',
      minimum: 0,
      examples: [42],
    }),
  ),
  receivedSince: Type.Optional(
    Type.String({
      description: 'read: only mails that came on this day or later',
      format: 'date',
      examples: ['2027-01-01'],
    }),
  ),
  fromContains: Type.Optional(
    Type.String({ description: 'read: only mails whose sender has this in it', examples: ['@example.com'] }),
  ),
  subjectContains: Type.Optional(
    Type.String({ description: 'read: only mails whose subject has this in it', examples: ['Order'] }),
  ),
  limit: Type.Integer({
    description: 'read: most mails; the oldest come first',
    default: 20,
    minimum: 1,
    maximum: 500,
    examples: [5],
  }),
  markSeen: Type.Boolean({ description: 'read: marks them as seen', default: false, examples: [true] }),
  maxBytes: Type.Integer({
    description: 'read: of larger mails only the size is given',
    default: 10_485_760,
    minimum: 1,
    maximum: 33_554_432,
    examples: [1_048_576],
  }),
}

const ReadInput = Type.Object(readProperties)
interface ReadRun {
  readonly given: TaskRun<
    Static<typeof ReadInput> & {
      readonly encryption: 'required' | 'offered' | 'none'
      readonly tls?: Static<typeof TlsSettings>
      readonly timeoutMs: number
    }
  >
  readonly place: ServerPlace
}

/** Reads mails of a folder over IMAP. Source: RFC 9051 and RFC 3501 */
export async function readMails(run: ReadRun): Promise<unknown[]> {
  const { signal } = run.given
  const client = await openImap(run)
  const { promise: broken, reject } = Promise.withResolvers<never>()
  broken.catch(() => undefined)
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  client.on('error', reject)
  client.on('close', () => reject(new TaskFailure('unavailable', 'The mail server closed the connection')))
  try {
    return await Promise.race([readFolder(client, run), broken])
  } catch (error) {
    signal.throwIfAborted()
    throw imapFailure(error)
  } finally {
    signal.removeEventListener('abort', stop)
    if (client.usable && !signal.aborted) {
      await Promise.race([client.logout().catch(() => undefined), new Promise((resolve) => setTimeout(resolve, 300))])
    }
    client.close()
  }
}

async function openImap({ given, place }: ReadRun): Promise<ImapFlow> {
  const { input, services, signal } = given
  const [{ ImapFlow: Client }, [address]] = await Promise.all([
    import('imapflow'),
    services.net.resolve(place.host, signal),
  ])
  const { servername, ...tls } = tlsOptions(input.tls ?? {}, place.host)
  const client = new Client({
    // The address that was checked, so that it is the one connected to.
    host: address!.address,
    ...(servername !== undefined && { servername }),
    port: place.port,
    secure: place.scheme === 'imaps',
    // The password is always sent, and only over TLS unless one says otherwise.
    doSTARTTLS: place.scheme === 'imap' && input.encryption !== 'none',
    tls,
    auth: { user: place.user, pass: place.password },
    logger: false,
    disableAutoIdle: true,
    connectionTimeout: Math.min(10_000, input.timeoutMs),
    greetingTimeout: Math.min(10_000, input.timeoutMs),
    socketTimeout: input.timeoutMs,
    maxLiteralSize: input.maxBytes + 65_536,
  })
  client.on('error', () => undefined)
  const { promise: stopped, reject } = Promise.withResolvers<never>()
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  try {
    await Promise.race([client.connect(), stopped])
    return client
  } catch (error) {
    client.close()
    signal.throwIfAborted()
    throw imapFailure(error)
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

async function readFolder(client: ImapFlow, { given }: ReadRun): Promise<unknown[]> {
  const { folder, limit, markSeen } = given.input
  const lock = await client.getMailboxLock(folder, { readOnly: !markSeen })
  try {
    const found = await client.search(criteriaOf(given.input), { uid: true })
    if (!Array.isArray(found)) throw new TaskFailure('unavailable', 'The mail server could not search')
    // A server gives the last mail for a range behind it.
    const { afterUid = 0 } = given.input
    const uids = found
      .filter((uid) => uid > afterUid)
      .sort((a, b) => a - b)
      .slice(0, limit)
    const mails: unknown[] = []
    for (const uid of uids) mails.push(await readMail(client, uid, given))
    if (markSeen && uids.length > 0) await client.messageFlagsAdd(uids.join(','), ['\\Seen'], { uid: true })
    return mails
  } finally {
    lock.release()
  }
}

function criteriaOf({
  unseenOnly,
  afterUid,
  receivedSince,
  fromContains,
  subjectContains,
}: ReadRun['given']['input']): SearchObject {
  const criteria = {
    ...(unseenOnly && { seen: false }),
    ...(afterUid !== undefined && { uid: `${afterUid + 1}:*` }),
    ...(receivedSince !== undefined && { since: new Date(receivedSince) }),
    ...(fromContains !== undefined && { from: fromContains }),
    ...(subjectContains !== undefined && { subject: subjectContains }),
  }
  return Object.keys(criteria).length === 0 ? { all: true } : criteria
}

async function readMail(client: ImapFlow, uid: number, given: ReadRun['given']): Promise<unknown> {
  const told = await client.fetchOne(String(uid), { size: true, flags: true, internalDate: true }, { uid: true })
  const { size: sizeBytes = 0, flags = new Set<string>(), internalDate } = told || {}
  const head = {
    uid,
    sizeBytes,
    flags: [...flags],
    receivedAt: internalDate === undefined ? null : new Date(internalDate).toISOString(),
  }
  if (sizeBytes > given.input.maxBytes) return { ...head, isTooLarge: true }
  const fetched = await client.fetchOne(String(uid), { source: true }, { uid: true })
  const { source } = fetched || {}
  if (source === undefined) return { ...head, isTooLarge: true }
  const { attachments, ...mail } = await inThread(given, 'parse', { source })
  const stored: unknown[] = []
  for (const { name, contentType, bytes } of attachments) {
    const { uri } = await given.services.files.put(bytes)
    stored.push({ name, contentType, sizeBytes: bytes.length, uri })
  }
  return { ...head, isTooLarge: false, ...mail, attachments: stored }
}

function imapFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const {
    code = '',
    message,
    authenticationFailed,
    responseText,
    tlsFailed,
  } = error as {
    code?: string
    message: string
    authenticationFailed?: boolean
    responseText?: string
    tlsFailed?: boolean
  }
  if (authenticationFailed === true)
    return new TaskFailure('refused', `The mail server refused the account: ${responseText ?? ''}`, error)
  if (tlsFailed === true || /CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO/.test(code) || /STARTTLS|certificate/i.test(message))
    return new TaskFailure('refused', `TLS is not possible: ${message}`, error)
  if (/TIMEOUT|Timeout/.test(code) || code === 'GREETING_TIMEOUT')
    return new TaskFailure('timeout', 'The mail server does not answer', error)
  if (/^(E[A-Z]+|NoConnection|ClosedAfterConnect\w*)$/.test(code) || /closed|not available/i.test(message))
    return new TaskFailure('unavailable', `The connection broke: ${code || message}`, error)
  return new TaskFailure('refused', `The mail server refused it: ${responseText ?? message}`, error)
}
