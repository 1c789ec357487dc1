import type { Setup } from './host/call.ts'
import { type Frame, toHost } from './host/frames.ts'
import { type HostExit, HostProcess } from './host-process.ts'

export interface HostFleetOptions {
  /** Host processes that functions share. */
  readonly hosts: number
  readonly setup: Setup
  readonly sandbox: string
  /** Resident memory of one host. */
  readonly hostMemoryMb: number
  readonly onFrame: (host: HostProcess, frame: Frame) => void
  /** Another one has its place already. */
  readonly onExit: (host: HostProcess, exit: HostExit, doomedBy: string | null) => void
}

const pingMs = 500
/** Part of the memory at which a host ends idle isolates. */
const shedAt = 0.6
const shedPauseMs = 2_000
/** Part of the memory at which others take the place of a host: its functions, each within its limits, are too many together. */
const relieveAt = 0.75
/** One that is nearly full with fewer has something else the matter with it. */
const relieveIsolates = 4
const relievedShedPauseMs = 500
/** How long a host that must end may go on for the calls it has. */
const drainMs = 10_000

/**
 * The host processes of a worker: some for all functions; one in reserve that takes the place of one that ends, and where suspects are tried
 * alone; one, started when it is needed, for functions that hurt others.
 */
export class HostFleet {
  readonly #options: HostFleetOptions
  readonly #shared: HostProcess[]
  #reserve: HostProcess
  #penalty: HostProcess | null = null
  readonly #all = new Set<HostProcess>()
  readonly #shedAt = new Map<HostProcess, number>()
  /** Functions that left something in a host which only its end removes. */
  readonly #doomedBy = new Map<HostProcess, string>()
  /** Hosts that were too full: they end when their calls have. */
  readonly #relieved = new Set<HostProcess>()
  readonly #pinging: NodeJS.Timeout
  #stopped = false

  constructor(options: HostFleetOptions) {
    this.#options = options
    this.#shared = Array.from({ length: options.hosts }, () => this.#spawn(false))
    this.#reserve = this.#spawn(false)
    this.#pinging = setInterval(() => {
      for (const host of this.#all) host.ping()
    }, pingMs)
  }

  /** All hosts are up. @throws when one cannot start */
  async ready(): Promise<void> {
    await Promise.all([...this.#all].map((host) => host.ready))
  }

  get all(): ReadonlySet<HostProcess> {
    return this.#all
  }

  get reserve(): HostProcess {
    return this.#reserve
  }

  get penalty(): HostProcess {
    if (this.#penalty === null || this.#penalty.ended) this.#penalty = this.#spawn(true)
    return this.#penalty
  }

  /** The same number comes to the same host while that lives. */
  shared(place: number): HostProcess {
    return this.#shared[place % this.#shared.length]!
  }

  /** The host takes no more calls, and ends with those it has. */
  doom(host: HostProcess, functionId: string): void {
    if (this.#doomedBy.has(host)) return
    this.#doomedBy.set(host, functionId)
    this.#replace(host)
    setTimeout(() => host.kill('doomed'), drainMs).unref()
  }

  /** Ends those that must end and have no calls; has those that are nearly full make room, and ends those that are. */
  watch(hasCalls: (host: HostProcess) => boolean): void {
    for (const host of this.#doomedBy.keys()) if (!hasCalls(host)) host.kill('doomed')
    for (const host of this.#relieved) if (host.isolates === 0 && !hasCalls(host)) host.kill('relieved')
    const now = performance.now()
    for (const host of this.#all) {
      const full = host.memoryMb() / this.#options.hostMemoryMb
      if (full > 1) host.kill('memory')
      else if (full > relieveAt) this.#relieve(host)
      const pauseMs = full > relieveAt || this.#relieved.has(host) ? relievedShedPauseMs : shedPauseMs
      const sheds = full > shedAt || this.#relieved.has(host)
      if (sheds && now - (this.#shedAt.get(host) ?? 0) > pauseMs) {
        this.#shedAt.set(host, now)
        host.send(toHost.shed, 0)
      }
    }
  }

  /** Not too many at a time: what they hold is memory of the machine. */
  #relieve(host: HostProcess): void {
    if (!this.#shared.includes(host) || host.isolates < relieveIsolates) return
    if (this.#relieved.size >= Math.max(2, this.#options.hosts)) return
    this.#relieved.add(host)
    this.#replace(host)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearInterval(this.#pinging)
    const gone = [...this.#all].map((host) => host.gone)
    for (const host of this.#all) host.kill('stopped')
    await Promise.all(gone)
  }

  #spawn(background: boolean): HostProcess {
    const { setup, sandbox, onFrame } = this.#options
    const host = new HostProcess({
      setup,
      sandbox,
      background,
      onFrame,
      onExit: (from, exit) => this.#exited(from, exit),
    })
    this.#all.add(host)
    return host
  }

  #exited(host: HostProcess, exit: HostExit): void {
    this.#all.delete(host)
    this.#shedAt.delete(host)
    this.#relieved.delete(host)
    const doomedBy = this.#doomedBy.get(host) ?? null
    this.#doomedBy.delete(host)
    this.#replace(host)
    this.#options.onExit(host, exit, doomedBy)
  }

  /** Another host takes its place for the calls that come. */
  #replace(host: HostProcess): void {
    if (this.#stopped) return
    const index = this.#shared.indexOf(host)
    if (index >= 0) {
      this.#shared[index] = this.#reserve
      this.#reserve = this.#spawn(false)
    } else if (host === this.#reserve) this.#reserve = this.#spawn(false)
    else if (host === this.#penalty) this.#penalty = null
  }
}
