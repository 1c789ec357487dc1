import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Test } from 'tap'
import { type Bus, connectBus } from '../../bus/connect.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { startProvisioningGateway } from '../../gateways/provisioning/server.ts'
import { freePort } from '../../ops/local/child.ts'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { type LocalDriverOptions, openLocalDriver } from '../../workers/provisioning/local/open-local.ts'
import type { MysqlInstallation } from '../../workers/provisioning/local/place.ts'
import { shutDownSupervisor } from '../../workers/provisioning/supervisor/client.ts'
import { type ProvisioningObservation, startProvisioningWorker } from '../../workers/provisioning/worker.ts'
import { type TestServer, testNats } from '../support/servers.ts'
import { mariadbHere } from './care-mysql-node.ts'

export interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests read whatever there is
  readonly body: any
  readonly headers: Headers
}

export type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>

/** Requests to a gateway; texts go as they are, other bodies as JSON. */
function client(url: string): Call {
  return async (method, path, body, headers = {}) => {
    const type = body === undefined ? {} : { 'Content-Type': 'application/json' }
    const content = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
    const response = await fetch(`${url}${path}`, { method, headers: { ...type, ...headers }, ...content })
    const text = await response.text()
    const json = /json/.test(response.headers.get('content-type') ?? '') && text !== ''
    return { status: response.status, body: json ? JSON.parse(text) : text, headers: response.headers }
  }
}

export interface ProvisioningPlatform {
  readonly bus: Bus
  readonly nats: TestServer
  readonly natsUrl: string
  readonly natsFolder: string
  readonly url: string
  readonly call: Call
  readonly home: string
  readonly ownDisk: boolean
  readonly secretKeys: readonly string[]
  readonly ports: { readonly from: number; readonly to: number }
  readonly observations: ProvisioningObservation[]
  /** In this process. */
  startWorker(): Promise<{ stop(): Promise<void> }>
}

interface PlatformOptions {
  /** Default true. */
  readonly worker?: boolean
  /** Of a disk of its own for the folder of the servers, `256m`. Default: the machine's disk. */
  readonly disk?: string
  /** Default: every PostgreSQL of the machine. */
  readonly postgres?: LocalDriverOptions['postgres']
  readonly hungMs?: number
  readonly promoteMs?: number
  /** Told in the very moment, before the worker goes on. */
  readonly onObservation?: (observation: ProvisioningObservation) => void
}

/** A nats-server, the door, and a folder for servers; a worker where the test wants it. */
export async function platform(
  t: Pick<Test, 'teardown'>,
  { worker = true, disk, postgres, hungMs, promoteMs, onObservation }: PlatformOptions = {},
): Promise<ProvisioningPlatform> {
  const nats = await testNats(t)
  const home = mkdtempSync(join(tmpdir(), 'busbar-prov-'))
  const ownDisk = disk !== undefined && mounted(home, disk)
  chmodSync(home, 0o711)
  const secretKeys = [`test:${randomBytes(32).toString('base64')}`]
  const from = await freePort()
  const ports = { from, to: Math.min(65_000, from + 40) }
  const connected = async (name: string) => {
    const bus = await connectBus({ url: nats.url, name })
    t.teardown(() => bus.close())
    return bus
  }
  const bus = await connected('test')
  await reconcileStreams(bus, streamSpecs())
  const account = unprivilegedAccount(join(home, 'instances'))
  const observations: ProvisioningObservation[] = []
  const startWorker = async () => {
    const options = {
      home,
      account,
      secretKeys,
      ports,
      ...(hungMs !== undefined && { hungMs }),
      ...(promoteMs !== undefined && { promoteMs }),
      postgres: postgres ?? (async () => findAllPostgres('/usr/bin:/bin', account)),
      mysql: mysqlHere,
    }
    const running = await startProvisioningWorker({
      bus: await connected('worker'),
      driver: async (view) => openLocalDriver(options, view),
      observeMs: 500,
      onObservation: (observation) => {
        observations.push(observation)
        onObservation?.(observation)
      },
    })
    let stopped: Promise<void> | null = null
    const stop = () => {
      stopped ??= running.stop()
      return stopped
    }
    t.teardown(stop)
    return { stop }
  }
  t.teardown(async () => {
    await shutDownSupervisor(home)
    if (ownDisk) execFileSync('umount', ['-l', home])
    rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  })
  if (worker) await startWorker()
  const gateway = await startProvisioningGateway({
    bus: await connected('gateway'),
    host: '127.0.0.1',
    port: 0,
    maxBodyBytes: 10_485_760,
    corsOrigins: ['*'],
    secretKeys,
    jwt: {},
    maxInstances: 50,
    onObservation: () => undefined,
  })
  t.teardown(() => gateway.stop())
  const { url } = gateway
  const { url: natsUrl, dataDir: natsFolder } = nats
  return {
    bus,
    nats,
    natsUrl,
    natsFolder,
    url,
    call: client(url),
    home,
    ownDisk,
    secretKeys,
    ports,
    observations,
    startWorker,
  }
}

/** MariaDB as a driver is given it. */
export async function mysqlHere(): Promise<MysqlInstallation | null> {
  const binaries = mariadbHere()
  return binaries === undefined ? null : { version: '10.11.0', binaries }
}

/** Whether there is a small disk in that place now: root alone can make one. */
function mounted(folder: string, size: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder], { stdio: 'pipe' })
    return true
  } catch {
    return false
  }
}

/** One statement in a session of its own, which takes no longer than a moment to open. */
export async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return (await client.query(text)).rows
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** What the work answers as soon as it does; @throws what it threw last when it does not in time. */
export async function eventually<T>(work: () => Promise<T>, ms = 60_000): Promise<T> {
  for (const end = performance.now() + ms; ; ) {
    try {
      return await work()
    } catch (error) {
      if (performance.now() > end) throw error
      await sleep(100)
    }
  }
}

/** How to get into an instance's database. */
export const urlOf = async ({ call }: Pick<ProvisioningPlatform, 'call'>, project: string) => {
  const { body } = await call('GET', `/api/provision/${project}/credentials`)
  if (typeof body.connectionUrl !== 'string') throw new Error(JSON.stringify(body))
  return body.connectionUrl as string
}

/** What is left in a place once all its instances are deleted: folders, and processes in one of them. */
export function leftovers(home: string): readonly string[] {
  const working = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readlinkSync(`/proc/${pid}/cwd`).startsWith(join(home, 'instances'))
      } catch {
        return false
      }
    })
  return [...readdirSync(join(home, 'instances')), ...working]
}

/** The oldest and the newest major version of PostgreSQL there is; the same where there is one. */
export function majorsHere(): { readonly older: number; readonly newer: number } {
  const all = findAllPostgres('/usr/bin:/bin', undefined).map(({ major }) => major)
  return { older: Math.min(...all), newer: Math.max(...all) }
}
