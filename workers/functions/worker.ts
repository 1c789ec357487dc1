import type { Bus } from '../../bus/connect.ts'
import type { ConsumeObservation } from '../../bus/consume.ts'
import type { CounterObservation } from '../../bus/counters.ts'
import type { FollowObservation } from '../../bus/follow.ts'
import { newId } from '../../bus/message.ts'
import { keyRing, type SecretKeys } from '../../bus/sealed.ts'
import { functionWorkersSubject } from '../../bus/subject.ts'
import { type Presence, presenceMs } from '../../schemas/functions/call.ts'
import { type EgressSettings, egressPolicy } from '../egress/policy.ts'
import { type CallsObservation, serveCalls } from './calls.ts'
import { serveChangeTriggers } from './change-triggers.ts'
import { type CallTallies, callTallies } from './counters.ts'
import { serveCron } from './cron.ts'
import { functionFetch } from './fetch.ts'
import { type FunctionHosts, startFunctionHosts } from './hosts.ts'
import { serveInvocations } from './invocations.ts'
import { functionKv } from './kv.ts'
import type { KvLimits } from './kv-room.ts'
import { functionLog } from './logs.ts'
import { programs } from './programs.ts'
import { type RunObservation, runner } from './runner.ts'

type HostOptions = Parameters<typeof startFunctionHosts>[0]

export type FunctionWorkerObservation =
  | CallsObservation
  | ConsumeObservation
  | CounterObservation
  | FollowObservation
  | RunObservation
  | Parameters<HostOptions['onObservation']>[0]

export interface FunctionWorkerOptions {
  readonly bus: Bus
  /** Each `<id>:<32 bytes in base64>`; absent: functions with secrets fail. */
  readonly secretKeys?: SecretKeys
  /** Longest run of a handler. Default 30,000. */
  readonly timeoutMs?: number
  /** Of the isolate hosts. */
  readonly hosts: Omit<HostOptions, 'fetch' | 'kv' | 'onLog' | 'onObservation'>
  /** What a function may keep. */
  readonly kv?: KvLimits
  /** What functions may fetch. Default: public addresses. */
  readonly egress?: EgressSettings
  /** `app.nats.stream-name` and `app.changes.source`. */
  readonly changeStream: string
  readonly source: string
  readonly onObservation: (observation: FunctionWorkerObservation) => void
}

export interface FunctionWorker {
  /** Takes no more calls, finishes those in hand, writes what it counted, ends the hosts. */
  stop(): Promise<void>
}

const maxCalls = 2_000
const drainMs = 15_000

/** One of any number of workers that run functions; they share all calls. @throws {BusUnavailable}; {TypeError} for a key that is none. */
export async function startFunctionWorker(options: FunctionWorkerOptions): Promise<FunctionWorker> {
  const { bus, timeoutMs = 30_000, changeStream, source, onObservation } = options
  const keys = keyRing(options.secretKeys)
  const worker = newId()
  const tallies = await callTallies(bus, onObservation)
  const log = functionLog(bus)
  const hosts = await startFunctionHosts({
    ...options.hosts,
    fetch: functionFetch({ policy: egressPolicy(options.egress ?? {}) }),
    kv: functionKv(bus, options.kv),
    onLog: ({ functionId, ...line }) => log.write(functionId, line),
    onObservation,
  })
  const run = runner({
    hosts,
    programs: programs(bus, keys),
    tallies,
    timeoutMs,
    log: ({ target, id: invocationId }, level, text) =>
      log.write(target.fn, { at: Date.now(), level, text, invocationId, revision: target.rev }),
    onObservation,
  })
  const stopping = new AbortController()
  const { signal } = stopping
  const presence = announce(bus, worker, () => {
    log.flush()
    return tallies.flush()
  })
  const work = Promise.all([
    serveCalls(bus, { run, maxCalls, drainMs, onObservation }, signal),
    serveInvocations(bus, { run, onObservation }, signal),
    serveCron(bus, onObservation, signal),
    serveChangeTriggers(bus, { changeStream, source, onGone: (id) => hosts.dispose(id), onObservation }, signal),
  ])
  work.catch(() => undefined)
  return {
    async stop() {
      presence.leave()
      stopping.abort()
      await work
      await close(tallies, hosts)
      log.close()
      presence.close()
      if (bus.connected) await bus.connection.flush().catch(() => undefined)
    },
  }
}

async function close(tallies: CallTallies, hosts: FunctionHosts): Promise<void> {
  await hosts.stop()
  // With the bus away there is nobody to count for.
  await tallies.close().catch(() => undefined)
}

/** Says that this worker is there, and writes what it counted and logged when a gateway wants to show it. */
function announce({ connection }: Bus, worker: string, flushAll: () => Promise<void>) {
  const say = (presence: Presence) => {
    if (!connection.isClosed()) connection.publish(functionWorkersSubject('presence'), JSON.stringify(presence))
  }
  const ask = connection.subscribe(functionWorkersSubject('ask'), { callback: () => say({ worker }) })
  const flushing = connection.subscribe(functionWorkersSubject('flush'), {
    callback: (_error, message) => {
      flushAll().then(
        () => message.respond(),
        () => undefined,
      )
    },
  })
  const timer = setInterval(say, presenceMs, { worker })
  say({ worker })
  return {
    leave() {
      clearInterval(timer)
      ask.unsubscribe()
      say({ worker, leaving: true })
    },
    close() {
      flushing.unsubscribe()
    },
  }
}
