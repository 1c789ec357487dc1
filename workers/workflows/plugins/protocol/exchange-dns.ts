import { Resolver } from 'node:dns/promises'
import { TaskFailure } from '../../plugin.ts'
import type { ExchangeRun, Told } from './exchange.ts'

const types = new Set(['A', 'AAAA', 'CAA', 'CNAME', 'MX', 'NAPTR', 'NS', 'PTR', 'SOA', 'SRV', 'TLSA', 'TXT'])
/** Of what can pass; the others say that there is no such record. */
const passing = new Set(['ESERVFAIL', 'EREFUSED', 'ECONNREFUSED', 'ECANCELLED', 'ENOTIMP', 'EFORMERR'])

/** Looks records up. Source: RFC 4501 for the URL, RFC 1035 */
export async function exchangeDns({ given, broken }: ExchangeRun): Promise<Told> {
  const { input, services, signal } = given
  const url = URL.parse(input.url)
  const name = decodeURIComponent(url?.pathname.slice(1) ?? '')
  const type = (url?.searchParams.get('type') ?? 'A').toUpperCase()
  if (url === null || !/^[\w.-]{1,253}$/.test(name) || !types.has(type))
    throw new TaskFailure('refused', 'properties.url is no address of records: dns://server/name?type=MX')
  const resolver = new Resolver({ timeout: input.waitMs, tries: 1 })
  let address: string | null = null
  if (url.hostname !== '') {
    const [server] = await services.net.resolve(url.hostname, signal)
    const host = server!.family === 6 ? `[${server!.address}]` : server!.address
    address = `${host}:${url.port === '' ? 53 : url.port}`
    resolver.setServers([address])
  }
  const startedAt = performance.now()
  try {
    const records = await broken.or(resolver.resolve(name, type as 'A') as Promise<unknown>)
    const messages = Array.isArray(records) ? records : [records]
    return { messages, address, connectMs: Math.round(performance.now() - startedAt) }
  } catch (error) {
    signal.throwIfAborted()
    const { code = '' } = error as { code?: string }
    const kind = code === 'ETIMEOUT' ? 'timeout' : passing.has(code) ? 'unavailable' : 'refused'
    throw new TaskFailure(kind, `${name} has no ${type}: ${code}`, error)
  } finally {
    resolver.cancel()
  }
}
