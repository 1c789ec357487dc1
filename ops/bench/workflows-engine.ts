import { freePort } from '../local/child.ts'
import { type Bench, roleConfig, type Started } from './processes.ts'

/** `flushed`: every append is on the disk before it is acknowledged; `lazy`: some time later. */
export type Durability = 'flushed' | 'lazy'

/** Gateway, worker, projection, each a process, with servers of their own. */
export async function startEngine(bench: Bench, durability: Durability): Promise<Started> {
  const { config } = await engineServers(bench, durability)
  await bench.role('projection:workflows', config)
  await bench.role('worker:workflows', config)
  return await bench.role('gateway:workflows', { ...config, 'server.port': await freePort() })
}

/** PostgreSQL and nats-server for it, and what its processes are told. */
export async function engineServers(bench: Bench, durability: Durability) {
  const lazily = durability === 'lazy'
  const postgres = await bench.postgres(lazily ? { synchronous_commit: 'off' } : {})
  const nats = await bench.nats(lazily ? '2m' : 'always')
  const { hostname, port, pathname, username, password } = new URL(postgres.url)
  const config = {
    ...roleConfig(postgres, nats),
    'platform.datasource.url': `jdbc:postgresql://${hostname}:${port}${pathname}`,
    'platform.datasource.username': username,
    'platform.datasource.password': password,
  }
  return { config, nats }
}

/** Answers its id. */
export async function saveFlow({ url }: Started, yaml: string): Promise<string> {
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(`${url}/api/v1/flows`, {
      method: 'POST',
      headers: { 'content-type': 'application/yaml' },
      body: yaml,
    })
    const text = await response.text()
    if (response.ok) return JSON.parse(text).id
    // The worker's plugins may not have been told of yet.
    if (attempt === 50) throw new Error(`The flow was refused: ${text.slice(0, 500)}`)
    await new Promise((again) => setTimeout(again, 100))
  }
}

/** Waits until so many have succeeded; answers how many there are. */
export async function endedAtLeast({ url }: Started, wanted: number): Promise<number> {
  for (;;) {
    const response = await fetch(`${url}/api/v1/executions?status=SUCCESS&limit=1`)
    await response.arrayBuffer()
    const ended = Number(response.headers.get('x-total-count'))
    if (ended >= wanted) return ended
    await new Promise((again) => setTimeout(again, 250))
  }
}
