import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../../ops/local/child.ts'
import type { RoleMessage } from '../../ops/run.ts'
import { type Command, startBusbar } from '../support/command.ts'
import type { Owner } from '../support/servers.ts'
import type { Presence } from './lateness.ts'

/** A role in a process of its own, as operators run it: it is started again whenever it ends. */
export class Role {
  readonly name: string
  readonly #args: readonly string[]
  readonly #presence: Presence
  #command: Command | null = null
  #stopped = false
  #ready = false
  /** How long each start took, of those that came to be ready. */
  readonly startsMs: number[] = []

  constructor(name: string, args: readonly string[], presence: Presence) {
    this.name = name
    this.#args = args
    this.#presence = presence
  }

  start(): void {
    if (this.#stopped) return
    const command = startBusbar(['run', this.name, ...this.#args])
    this.#command = command
    const startedAt = performance.now()
    command.process.once('message', ({ kind }: RoleMessage) => {
      if (kind === 'ready') this.startsMs.push(performance.now() - startedAt)
      this.#is(kind === 'ready')
    })
    void command.finished.then(async () => {
      this.#is(false)
      // One that finds no bus at its start ends.
      await delay(200)
      this.start()
    })
  }

  /** Whether it has been up since it was started last. */
  get ready(): boolean {
    return this.#ready
  }

  #is(ready: boolean): void {
    if (ready === this.#ready) return
    this.#ready = ready
    if (ready) this.#presence.came(this.name)
    else this.#presence.left(this.name)
  }

  /** At once, without a goodbye; it is started again. */
  async kill(): Promise<void> {
    this.#is(false)
    this.#command!.process.kill('SIGKILL')
    await this.#command!.finished
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.kill()
  }
}

export interface Platform {
  readonly gateways: readonly string[]
  readonly roles: Readonly<Record<'gateway' | 'worker' | 'projection' | 'scheduler', readonly Role[]>>
}

/** Two of each role of the workflow engine. @param plugins folder with plugins of the user's own; `presence`: who is ready, by the role's name */
export async function startPlatform(
  t: Owner,
  {
    natsUrl,
    postgresUrl,
    plugins,
    presence,
  }: {
    readonly natsUrl: string
    readonly postgresUrl: string
    readonly plugins: string
    readonly presence: Presence
  },
): Promise<Platform> {
  const common = [
    `--app.nats.url=${natsUrl}`,
    `--platform.datasource.url=${postgresUrl}`,
    `--app.workflows.plugins=${plugins}`,
    '--log.level=warn',
  ]
  const two = (name: string) => [new Role(name, common, presence), new Role(name, common, presence)]
  const ports = [await freePort(), await freePort()]
  const roles = {
    projection: two('projection:workflows'),
    worker: two('worker:workflows'),
    gateway: ports.map(
      (port) => new Role('gateway:workflows', [...common, `--gateway.workflows.port=${port}`], presence),
    ),
    scheduler: two('worker:scheduler'),
  }
  const all = Object.values(roles).flat()
  for (const role of all) role.start()
  t.teardown(() => Promise.all(all.map((role) => role.stop())))
  return { gateways: ports.map((port) => `http://127.0.0.1:${port}/api/v1`), roles }
}

export interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: bodies of many routes
  readonly json: any
  /** Path of the rest of a list. */
  readonly next: string | null
}

/** A client of several gateways, of which some may be dead: takes one after the other. Null: no answer, and nobody knows. */
export function clientOf(gateways: readonly string[]) {
  let turn = 0
  const once = async (method: string, path: string, body?: unknown): Promise<Answer | null> => {
    turn++
    try {
      const response = await fetch(`${gateways[turn % gateways.length]}${path}`, {
        method,
        signal: AbortSignal.timeout(20_000),
        ...(body !== undefined && { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }),
      })
      const [, next = null] = /<\/api\/v1([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '') ?? []
      return { status: response.status, json: await response.json(), next }
    } catch {
      return null
    }
  }
  /** Until somebody answers who can. */
  const surely = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    for (let tries = 0; tries < 600; tries++) {
      const answer = await once(method, path, body)
      if (answer !== null && answer.status < 500) return answer
      await delay(100)
    }
    throw new Error(`${method} ${path} has no answer`)
  }
  return { once, surely }
}

export type Client = ReturnType<typeof clientOf>
