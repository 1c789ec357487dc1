import { randomUUID } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type KeyRing, keyRing, type SecretKeys } from '../../../bus/sealed.ts'
import { Rejected } from '../../../schemas/failure.ts'
import type { Driver } from '../driver.ts'
import { openSupervisor, type Supervisor } from '../supervisor/client.ts'
import type { InstanceView } from '../worker.ts'
import { localDriver } from './local-driver.ts'
import type { Installation, LocalPlace, MysqlInstallation } from './place.ts'
import type { NodeAccount } from './postgres-node.ts'

export interface LocalDriverOptions {
  /** Folder of the place; the account below must be able to enter it. Made when missing. */
  readonly home: string
  /** Servers run as this; absent: as this process. */
  readonly account: NodeAccount | undefined
  /** Absent: no instance can be made, for passwords are only kept sealed. */
  readonly secretKeys: SecretKeys | undefined
  readonly ports: { readonly from: number; readonly to: number }
  /** PostgreSQL on this machine, whatever the order. */
  readonly postgres: () => Promise<readonly Installation[]>
  /** MariaDB; null: there is none. */
  readonly mysql?: () => Promise<MysqlInstallation | null>
  /** How long a server without a standby may hang before it is ended and started again. Default 30,000. */
  readonly hungMs?: number
  /** How long a standby that takes over may read what the old primary had not sent. Default 600,000. */
  readonly promoteMs?: number
  /** Fetches MariaDB. @throws with a text for the user */
  readonly installMysql?: () => Promise<void>
}

const defaultHungMs = 30_000
const defaultPromoteMs = 600_000

/** The driver for servers on this machine; its supervisor is started when the first of them is. */
export function openLocalDriver(options: LocalDriverOptions, view: InstanceView): Driver {
  const home = resolve(options.home)
  mkdirSync(home, { recursive: true })
  // Accounts pass through; what lies in it is closed by itself.
  chmodSync(home, 0o711)
  mkdirSync(join(home, 'instances'), { recursive: true, mode: 0o711 })
  const stopping = new AbortController()
  const supervised = supervising(home, view, stopping.signal)
  const place: LocalPlace = {
    home,
    name: keptName(home),
    account: options.account,
    keys: keyRing(options.secretKeys) ?? noKeys,
    ports: options.ports,
    postgres: async () => [...(await options.postgres())].sort(newestFirst),
    mysql: options.mysql ?? (async () => null),
    installMysql: options.installMysql ?? (() => Promise.reject(new Error('This cannot be done here'))),
    hungMs: options.hungMs ?? defaultHungMs,
    promoteMs: options.promoteMs ?? defaultPromoteMs,
    supervisor: supervised.get,
    instances: view.instances,
  }
  const driver = localDriver({ place })
  return {
    ...driver,
    async close() {
      stopping.abort()
      await driver.close()
      await supervised.close()
    },
  }
}

/** One connection for all; a new one when it is lost. */
function supervising(home: string, view: InstanceView, signal: AbortSignal) {
  let current: Promise<Supervisor> | null = null
  const open = async () => {
    const supervisor = await openSupervisor(home, {
      onEnded: ({ key }) => view.look(key.split('/')[0]!),
      signal,
    })
    void supervisor.lost.then(() => {
      current = null
      if (!signal.aborted) view.startAll()
    })
    return supervisor
  }
  return {
    get() {
      current ??= open().catch((error: unknown) => {
        current = null
        throw error
      })
      return current
    },
    async close() {
      const supervisor = await current?.catch(() => null)
      supervisor?.close()
    },
  }
}

function keptName(home: string): string {
  const file = join(home, 'place')
  if (!existsSync(file)) writeFileSync(file, `${randomUUID()}\n`, { flag: 'wx', flush: true })
  return readFileSync(file, 'utf8').trim()
}

const noKeys: KeyRing = {
  keyId: '',
  seal: () => {
    throw new Rejected('provisioning/no-secret-keys', 'Passwords cannot be sealed: app.secrets.keys is not set')
  },
  open: () => {
    throw new Rejected('provisioning/no-secret-keys', 'Passwords cannot be opened: app.secrets.keys is not set')
  },
}

function newestFirst(left: Installation, right: Installation): number {
  return right.version.localeCompare(left.version, 'en', { numeric: true })
}
