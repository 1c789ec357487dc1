import { createServer } from 'node:net'
import type { KeyRing } from '../../../bus/sealed.ts'
import { Rejected } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import type { Supervisor } from '../supervisor/client.ts'
import type { MysqlBinaries } from './mysql/mysql-node.ts'
import type { NodeAccount } from './postgres-node.ts'

/** Server programs of one version. */
export interface Installation {
  readonly major: number
  /** `18.4` */
  readonly version: string
  readonly binFolder: string
  /** Whether its client tools are there: pg_dump and its kin. */
  readonly tools: boolean
}

export interface MysqlInstallation {
  readonly version: string
  readonly binaries: MysqlBinaries
}

/** A folder of this machine with the servers in it. */
export interface LocalPlace {
  readonly home: string
  /** Its name on the bus. */
  readonly name: string
  /** Servers run as this; absent: as ourselves. */
  readonly account: NodeAccount | undefined
  readonly keys: KeyRing
  readonly ports: { readonly from: number; readonly to: number }
  /** PostgreSQL, the newest first. */
  readonly postgres: () => Promise<readonly Installation[]>
  /** MariaDB; null: there is none. */
  readonly mysql: () => Promise<MysqlInstallation | null>
  /** Fetches MariaDB where that can be done. @throws with a text for the user */
  readonly installMysql: () => Promise<void>
  /** Waits until there is one that obeys us. @throws {Unavailable} */
  readonly supervisor: () => Promise<Supervisor>
  /** How long a server may take connections and say nothing before it is ended. */
  readonly hungMs: number
  /** The longest a standby that takes over may read what the old primary had not sent. */
  readonly promoteMs: number
  /** Every instance that is known. */
  readonly instances: () => readonly Instance[]
}

/** Given to somebody a moment ago, and in no instance yet. */
const given = new Map<number, number>()
const givenMs = 60_000

/** Ports of the range that no instance has and nobody listens on. @throws {Rejected} `provisioning/quota` */
export async function freePorts(place: LocalPlace, count: number): Promise<readonly number[]> {
  const taken = new Set(place.instances().flatMap(({ members }) => members.map(({ port }) => port)))
  const found: number[] = []
  for (let port = place.ports.from; port <= place.ports.to && found.length < count; port++) {
    if (taken.has(port) || (given.get(port) ?? 0) > performance.now()) continue
    if (!(await isFree(port))) continue
    given.set(port, performance.now() + givenMs)
    found.push(port)
  }
  if (found.length === count) return found
  throw new Rejected('provisioning/quota', `No port is free from ${place.ports.from} to ${place.ports.to}`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  return await new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/** The newest server of a version such as `16` or `16.4`; for null the newest that can do everything. @throws {Rejected} `provisioning/engine-missing` */
export function chooseInstallation(all: readonly Installation[], wanted: string | null): Installation {
  const whole = wanted === null ? all.find(({ tools }) => tools) : undefined
  const fits = ({ version, major }: Installation) => wanted === null || wanted === version || wanted === String(major)
  const found = whole ?? all.find(fits)
  if (found !== undefined) return found
  const versions = all.map(({ version }) => version)
  if (wanted === null)
    throw missingEngine('POSTGRESQL', 'Install PostgreSQL, or run POST /api/setup/install/POSTGRESQL.')
  throw new Rejected('provisioning/engine-missing', `PostgreSQL ${wanted} is not on this machine`, {
    details: { field: 'postgresVersion', versions },
    hint: versions.length === 0 ? undefined : `There is ${versions.join(', ')}.`,
  } as ConstructorParameters<typeof Rejected>[2])
}

export function missingEngine(databaseType: string, hint: string): Rejected {
  return new Rejected('provisioning/engine-missing', `No server of the type ${databaseType} is on this machine`, {
    details: { databaseType },
    hint,
  })
}
