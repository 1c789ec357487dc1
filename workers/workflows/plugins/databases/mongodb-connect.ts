import dns from 'node:dns/promises'
import { isIP } from 'node:net'
import type { ClientSession, Document, MongoClient, MongoClientOptions } from 'mongodb'
import { pinned } from '../../../egress/hop.ts'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { OwnSockets } from '../own-sockets.ts'
import { tlsOptions } from '../server-properties.ts'
import { mongoFailure } from './mongodb-failure.ts'
import type { MongoInput } from './mongodb-input.ts'

export interface MongoSession {
  readonly client: MongoClient
  readonly sockets: OwnSockets
  /** What the server knows the operations by. */
  readonly session: ClientSession
  readonly host: string
  readonly database: string
}

interface Place {
  readonly hosts: readonly string[]
  readonly user: string
  readonly password: string
  readonly database: string
  readonly query: URLSearchParams
}

const form = /^mongodb(\+srv)?:\/\/(?:([^:@/?]*)(?::([^@/?]*))?@)?([^/?@]+)(?:\/([^?]*))?(?:\?(.*))?$/
/** Options that neither read files of this machine nor lead to other servers. */
const options = new Set(
  'appName authMechanism authSource directConnection maxStalenessSeconds readConcernLevel readPreference replicaSet retryReads retryWrites ssl tls w'.split(' '), // biome-ignore format: one list
)
const mechanisms = new Set(['DEFAULT', 'SCRAM-SHA-1', 'SCRAM-SHA-256', 'PLAIN', 'MONGODB-X509'])
const connectMs = 10_000
const mostHosts = 16

/**
 * Opens the member that takes writes, or for reads that may be stale any. Members that a server names are checked before they are
 * connected to, as the one in the URL is: the driver finds none by itself.
 */
export async function openMongo(given: TaskRun<MongoInput>): Promise<MongoSession> {
  const place = await placeOf(given.input)
  const stale = (place.query.get('readPreference') ?? 'primary') !== 'primary'
  const waiting = [...place.hosts]
  const asked = new Set<string>()
  let failure: unknown = new TaskFailure('unavailable', 'No member of the replica set takes writes now')
  for (let host = waiting.shift(); host !== undefined; host = waiting.shift()) {
    if (asked.has(host)) continue
    asked.add(host)
    try {
      const { session, hello } = await openHost(given, place, host)
      if (hello.isWritablePrimary === true || hello.msg === 'isdbgrid' || (stale && hello.secondary === true))
        return session
      await closeMongo(session)
      if (asked.size < mostHosts)
        waiting.unshift(...[hello.primary, ...(hello.hosts ?? [])].filter((each) => typeof each === 'string'))
    } catch (error) {
      given.signal.throwIfAborted()
      // A no is final, whoever says it; the next member may be there.
      failure = mongoFailure(error)
      if ((failure as TaskFailure).kind === 'refused') throw failure
    }
  }
  throw failure
}

async function openHost(
  given: TaskRun<MongoInput>,
  place: Place,
  host: string,
): Promise<{ session: MongoSession; hello: Document }> {
  const { MongoClient } = await import('mongodb')
  const { signal } = given
  const sockets = new OwnSockets()
  const settings = await clientOptions(given, place, host)
  const client = sockets.within(() => new MongoClient(`mongodb://${host}/`, settings))
  const ended = Promise.withResolvers<never>()
  const stop = () => ended.reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  // The driver would go on trying.
  client.once('serverHeartbeatFailed', ({ failure }) => ended.reject(failure))
  try {
    const hello = await Promise.race([sockets.within(() => greet(client)), ended.promise])
    const database = given.input.database ?? place.database
    if (database === '') throw new TaskFailure('refused', 'properties.database is needed, or one in properties.url')
    return { session: { client, sockets, session: client.startSession(), host, database }, hello }
  } catch (error) {
    await closeMongo({ client, sockets })
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

async function greet(client: MongoClient): Promise<Document> {
  await client.connect()
  return await client.db('admin').command({ hello: 1 })
}

async function clientOptions(
  { input, services, signal, idempotencyKey }: TaskRun<MongoInput>,
  place: Place,
  host: string,
): Promise<MongoClientOptions> {
  const name = host.startsWith('[') ? host.slice(1, host.indexOf(']')) : host.replace(/:\d+$/, '')
  const addresses = await services.net.resolve(name, signal)
  const query = Object.fromEntries(place.query)
  const secure = input.tls !== undefined || query.tls === 'true' || query.ssl === 'true'
  const { authSource, authMechanism = 'DEFAULT', readPreference = 'primary', w } = query
  const { servername, rejectUnauthorized, ...pem } = tlsOptions(input.tls ?? {}, name)
  return {
    directConnection: true,
    // A name leads nowhere but to what was checked.
    ...(isIP(name) === 0 && { lookup: pinned(addresses) }),
    ...(place.user !== '' && { auth: { username: place.user, password: place.password } }),
    ...(place.user !== '' && { authMechanism: authMechanism as 'DEFAULT' }),
    ...((place.user !== '' || authMechanism === 'MONGODB-X509') && {
      authSource: authSource ?? (place.database || 'admin'),
    }),
    ...(secure && {
      tls: true,
      tlsAllowInvalidCertificates: rejectUnauthorized === false,
      ...pem,
      ...(servername !== undefined && { servername }),
    }),
    appName: `busbar ${idempotencyKey}`.slice(0, 100),
    readPreference: readPreference as 'primary',
    ...(w !== undefined && { w: /^\d+$/.test(w) ? Number(w) : (w as 'majority') }),
    retryWrites: query.retryWrites !== 'false',
    maxPoolSize: 1,
    serverMonitoringMode: 'poll',
    connectTimeoutMS: Math.min(connectMs, input.timeoutMs),
    serverSelectionTimeoutMS: Math.min(connectMs, input.timeoutMs),
  } as MongoClientOptions
}

async function placeOf({ url, user, password }: MongoInput): Promise<Place> {
  const [, srv, urlUser = '', urlPassword = '', hosts = '', database = '', query = ''] = form.exec(url) ?? []
  if (hosts === '')
    throw new TaskFailure(
      'refused',
      'properties.url is no address of a MongoDB: it begins with mongodb:// or mongodb+srv://',
    )
  const parameters = new URLSearchParams(query)
  const found = srv === undefined ? { hosts: hosts.split(',') } : await lookUp(hosts, parameters)
  for (const name of parameters.keys()) {
    if (!options.has(name))
      throw new TaskFailure('refused', `properties.url has the option ${name}, which tasks cannot use`)
  }
  if (!mechanisms.has(parameters.get('authMechanism') ?? 'DEFAULT'))
    throw new TaskFailure('refused', 'properties.url has an authMechanism that tasks cannot use')
  try {
    return {
      hosts: found.hosts,
      user: user ?? decodeURIComponent(urlUser),
      password: password ?? decodeURIComponent(urlPassword),
      database: decodeURIComponent(database),
      query: parameters,
    }
  } catch (cause) {
    throw new TaskFailure('refused', 'properties.url has a % that is not followed by two digits', cause)
  }
}

/** Source: MongoDB specification, Initial DNS Seedlist Discovery */
async function lookUp(name: string, parameters: URLSearchParams): Promise<{ readonly hosts: readonly string[] }> {
  const domain = name
    .split('.')
    .slice(name.split('.').length > 2 ? 1 : 0)
    .join('.')
  try {
    const [members, [text = []] = []] = await Promise.all([
      dns.resolveSrv(`_mongodb._tcp.${name}`),
      dns.resolveTxt(name).catch(() => []),
    ])
    for (const [option, value] of new URLSearchParams(text.join(''))) {
      if (/^(authSource|replicaSet)$/.test(option) && !parameters.has(option)) parameters.set(option, value)
    }
    if (!parameters.has('tls') && !parameters.has('ssl')) parameters.set('tls', 'true')
    const hosts = members.filter((each) => each.name.endsWith(`.${domain}`)).map((each) => `${each.name}:${each.port}`)
    if (hosts.length > 0) return { hosts }
  } catch (error) {
    throw new TaskFailure('unavailable', `"${name}" cannot be looked up: ${(error as { code?: string }).code}`, error)
  }
  throw new TaskFailure('refused', `"${name}" names no servers of its own domain`)
}

const closeMs = 300

/** Closes every connection, also when the server no longer answers. */
export async function closeMongo({ client, sockets }: Pick<MongoSession, 'client' | 'sockets'>): Promise<void> {
  const late = new Promise((resolve) => setTimeout(resolve, closeMs).unref())
  await Promise.race([client.close(true).catch(() => undefined), late])
  // A greeting without an answer is given up by the driver after its own time limit alone.
  sockets.destroy()
}

const endMs = 700

/** Ends what the session does on the server. Source: the command `killSessions` */
export async function endOnServer(given: TaskRun<MongoInput>, { session, host }: MongoSession): Promise<void> {
  const { id } = session
  if (id === undefined) return
  const signal = AbortSignal.timeout(endMs)
  try {
    const other = await openHost({ ...given, signal }, await placeOf(given.input), host)
    try {
      await other.session.client.db('admin').command({ killSessions: [{ id: id.id }] })
    } finally {
      await closeMongo(other.session)
    }
  } catch {
    // The server is away: so is the operation.
  }
}
