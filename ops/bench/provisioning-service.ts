import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { shutDownSupervisor } from '../../workers/provisioning/supervisor/client.ts'
import { freePort } from '../local/child.ts'
import type { Bench } from './processes.ts'

/** The fields of an instance's record that are looked at. */
export interface Shown {
  readonly id: string
  readonly projectId: string
  readonly status: string
  readonly primary: string
  readonly operation: { readonly type: string; readonly state: string }
}

/** The service as a client sees it, and the folder its servers live in. */
export interface Service {
  readonly home: string
  /** @throws when the answer's status is not below 300 */
  request<T>(method: string, path: string, body?: object): Promise<T>
  /** Opens the database of an instance. */
  open(project: string): Promise<Client>
  /** Process id of the first process of an instance's primary. */
  primaryPid(project: string): Promise<number>
}

const waitSeconds = 300

/** Gateway and worker on a nats-server of their own; whatever servers they make end with them. */
export async function startService(bench: Bench): Promise<Service & { stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-bench-'))
  // The servers' account passes through.
  chmodSync(folder, 0o711)
  const nats = await bench.nats()
  const port = await freePort()
  const config = {
    'app.nats.enabled': true,
    'app.nats.url': nats.url,
    'busbar.data': folder,
    'app.secrets.keys': `bench:${randomBytes(32).toString('base64')}`,
    'log.level': 'warn',
  }
  const home = join(folder, 'provisioning')
  await bench.role('worker:provisioning', config)
  const { url } = await bench.role('gateway:provisioning', { ...config, 'server.port': port })
  const request = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const response = await fetch(`${url}/api/provision${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
    })
    const text = await response.text()
    if (response.status >= 300) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return JSON.parse(text) as T
  }
  return {
    home,
    request,
    async open(project) {
      const { connectionUrl } = await request<{ connectionUrl: string }>('GET', `/${project}/credentials`)
      return await connected(connectionUrl)
    },
    async primaryPid(project) {
      const { id, primary } = await request<Shown>('GET', `/${project}`)
      const file = join(home, 'instances', id, 'members', primary, 'data', 'postmaster.pid')
      return Number(readFileSync(file, 'utf8').split('\n')[0])
    },
    async stop() {
      await shutDownSupervisor(home)
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
    },
  }
}

async function connected(connectionString: string): Promise<Client> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 1_000, query_timeout: 600_000 })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

/** The body of an instance that is to be made. */
export function wanted(projectName: string, own: object = {}): object {
  return { projectName, orgId: 'bench', databaseType: 'POSTGRESQL', tier: 'FREE', ...own }
}

/** Sends what takes time and waits for its end, as long as it takes. @throws when it fails */
export async function settled(service: Service, method: string, path: string, body?: object): Promise<void> {
  let told = await service.request<Partial<Shown>>(method, `${path}?wait=${waitSeconds}`, body)
  while (told.operation?.state === 'RUNNING' && told.projectId !== undefined) {
    await new Promise((again) => setTimeout(again, 100))
    told = await service.request<Shown>('GET', `/${told.projectId}`)
  }
  if (told.operation?.state === 'FAILED') throw new Error(`${method} ${path}: ${JSON.stringify(told.operation)}`)
}

/** Milliseconds that it took. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return Math.round(performance.now() - begun)
}

export function spread(all: readonly number[]) {
  const sorted = [...all].sort((left, right) => left - right)
  return { median: sorted[Math.floor(sorted.length / 2)]!, min: sorted[0]!, max: sorted.at(-1)!, rounds: all.length }
}

export async function until(holds: () => Promise<boolean>, what: string, seconds = 120): Promise<void> {
  for (const end = performance.now() + seconds * 1_000; !(await holds()); ) {
    if (performance.now() > end) throw new Error(`${what} took longer than ${seconds} s`)
    await new Promise((again) => setTimeout(again, 20))
  }
}
