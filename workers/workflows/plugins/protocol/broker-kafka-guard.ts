import { isIP, type LookupFunction } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type { Consumer, Producer } from '@platformatic/kafka'
import { pinned } from '../../../egress/hop.ts'
import type { TaskRun } from '../../plugin.ts'
import type { BrokerInput } from './broker-properties.ts'

export type Client = Producer | Consumer
type Pool = Client['connections']
interface Place {
  readonly host: string
  readonly port: number
}
type Done = (error: Error | null, connection?: never) => void

/** Brokers name each other: each is checked before it is connected to, as the one in the URL is, and by its address. */
export class KafkaGuard {
  readonly #given: TaskRun<BrokerInput>
  readonly #lookups = new Map<string, LookupFunction>()
  readonly #pools: Pool[] = []
  #isSecure = false
  readonly #stop = () => this.letGo()

  constructor(given: TaskRun<BrokerInput>) {
    this.#given = given
    given.signal.addEventListener('abort', this.#stop, { once: true })
  }

  /** For TLS, where a broker keeps its name: it leads nowhere but to what was checked. */
  secure({ checkServerIdentity, servername, ...options }: ConnectionOptions, name: string | undefined) {
    this.#isSecure = true
    const lookup: LookupFunction = (host, asked, done) => {
      const known = this.#lookups.get(host)
      if (known === undefined) done(new Error(`${host} was not checked`), [])
      else known(host, asked, done)
    }
    return { ...options, lookup, ...(name !== undefined && { servername, checkServerIdentity }) }
  }

  watch(client: Client): void {
    const pool = client.connections
    this.#pools.push(pool)
    const one = pool.get.bind(pool) as (place: Place, done: Done) => void
    const any = pool.getFirstAvailable.bind(pool) as (places: Place[], done: Done) => void
    const get = (place: Place, done: Done) => {
      this.#checked(place).then(
        (checked) => one(checked, done),
        (error) => done(error),
      )
    }
    const getFirstAvailable = (places: readonly Place[], done: Done) => {
      void Promise.allSettled(places.map((place) => this.#checked(place))).then((all) => {
        const allowed = all.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
        const [refused] = all.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
        if (allowed.length > 0) any(allowed, done)
        else done(refused)
      })
    }
    Object.assign(pool, { get, getFirstAvailable })
  }

  /** Ends every connection at once. */
  letGo(): void {
    this.#given.signal.removeEventListener('abort', this.#stop)
    for (const pool of this.#pools) for (const [, connection] of pool) connection.socket?.destroy()
  }

  async #checked({ host, port }: Place): Promise<Place> {
    const { services, signal } = this.#given
    signal.throwIfAborted()
    const addresses = await services.net.resolve(host, signal)
    if (!this.#isSecure || isIP(host) !== 0) return { host: addresses[0]!.address, port }
    this.#lookups.set(host, pinned(addresses))
    return { host, port }
  }
}
