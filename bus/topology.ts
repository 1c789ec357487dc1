import {
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
  StoreCompression,
  type StreamConfig,
} from '@nats-io/jetstream'
import type { Bus } from './connect.ts'

/** Schedules, message time-to-live and consumer groups came with it; older servers drop what they do not know without a word. */
export const minimumServerVersion = '2.12.0'

export interface TopologyOptions {
  /** Copies of each stream in a cluster. Default 1. */
  readonly replicas?: number
  /** `app.nats.stream-name`. Default `cdc-stream`. */
  readonly changeStream?: string
  /** How long row changes stay. Default 7 days. */
  readonly changeAgeMs?: number
  /** How much of row changes stays. Default: no limit. */
  readonly changeBytes?: number
  /** How much functions may keep. Default: no limit. */
  readonly functionsBytes?: number
}

/** A stream as we want it; what is left out is the server's to choose. */
export type StreamSpec = Partial<StreamConfig> &
  Pick<StreamConfig, 'name' | 'subjects'> & {
    /** `async`: acknowledged before the disk has it, whatever the server's `sync_interval`. Chosen when a stream is made, for ever. */
    readonly persist_mode?: 'async'
  }

/** The bus cannot be what the platform needs; the text says why, and nothing was changed. */
export class TopologyRefused extends Error {
  override readonly name = 'TopologyRefused'
}

const day = 86_400_000
const nanosPerMs = 1_000_000
/** Within this time a message with a known id is stored once. */
const duplicateWindowMs = 2 * 60_000
const maxMessageBytes = 1024 * 1024

/** Bodies too large for a message lie in this object store. */
export const bodyStore = 'bodies'
/** Small shared state of the platform lies in this key-value bucket. */
export const platformBucket = 'platform'
/** What functions keep lies in this one. */
export const functionsBucket = 'functions'
/** What users and tasks of workflows keep lies in this one. */
export const workflowsBucket = 'workflows'
/** A request body of 1 MB and the headers. */
const maxCallBytes = maxMessageBytes + 128 * 1024
const maxWaitingCallBytes = 256 * 1024 ** 2
/** What a function may answer, 6 MB, and the headers. */
export const maxOutcomeBytes = 6 * 1024 ** 2 + 128 * 1024
/** A body of 1 MB, the headers and the query. */
const maxDeliveryBytes = 2 * maxMessageBytes
/** The largest value a key-value bucket takes. */
export const maxValueBytes = 64 * 1024
/** The newest samples of what is measured, so many of each, are kept. */
export const keptSamples = 100

/** Every stream of the platform. The one place where streams are declared. */
export function streamSpecs(options: TopologyOptions = {}): readonly StreamSpec[] {
  const { changeStream = 'cdc-stream', changeAgeMs = 7 * day, changeBytes = -1, functionsBytes = -1 } = options
  const log = (name: string, subjects: string[], maxAgeMs: number, maxBytes = -1) =>
    stream(options, { name, subjects, max_age: nanos(maxAgeMs), max_bytes: maxBytes, discard: DiscardPolicy.Old })
  // What is told beside the facts: a power cut may take the last moment of it.
  const told = (name: string, subjects: string[], maxBytes: number): StreamSpec => ({
    ...log(name, subjects, 7 * day, maxBytes),
    ...((options.replicas ?? 1) === 1 && { persist_mode: 'async' }),
  })
  const facts = (name: string, subjects: string[]) =>
    stream(options, { name, subjects, compression: StoreCompression.S2, deny_delete: true, allow_atomic: true })
  return [
    facts('EVT_WORKFLOWS', ['evt.workflows.>']),
    facts('EVT_FUNCTIONS', ['evt.functions.>']),
    facts('EVT_PROVISIONING', ['evt.provisioning.>']),
    facts('EVT_AUDIT', ['evt.audit.>']),
    stream(options, { name: 'EVT_EXECUTIONS', subjects: ['evt.executions.>'], allow_atomic: true }),
    // A queue each: a consumer that filters a stream of many subjects crawls.
    stream(options, { name: 'COMMANDS', subjects: ['command.>'], retention: RetentionPolicy.Workqueue }),
    // In the order in which they came; who has its turn is deleted.
    stream(options, { name: 'WAITING', subjects: ['waiting.>'], max_msgs_per_subject: 1 }),
    stream(options, { name: 'TASKS', subjects: ['task.>'], retention: RetentionPolicy.Workqueue }),
    stream(options, { name: 'BACKLOG', subjects: ['backlog.>'], retention: RetentionPolicy.Workqueue }),
    stream(options, {
      name: 'DELIVERIES',
      subjects: ['delivery.>'],
      max_age: nanos(30 * day),
      max_bytes: 2 * 1024 ** 3,
      max_msgs_per_subject: 10_000,
      discard: DiscardPolicy.New,
      discard_new_per_subject: true,
      max_msg_size: maxDeliveryBytes,
      // A delivery that is sent again is the same for so long.
      duplicate_window: nanos(60 * 60_000),
    }),
    stream(options, {
      name: 'CALLS',
      subjects: ['call.>'],
      retention: RetentionPolicy.Workqueue,
      storage: StorageType.Memory,
      // Nobody waits for the answer of an older one.
      max_age: nanos(10 * 60_000),
      max_bytes: maxWaitingCallBytes,
      discard: DiscardPolicy.New,
      max_msg_size: maxCallBytes,
    }),
    stream(options, {
      name: 'INVOCATIONS',
      subjects: ['invocation.>'],
      retention: RetentionPolicy.Workqueue,
      max_bytes: 4 * 1024 ** 3,
      discard: DiscardPolicy.New,
      max_msg_size: maxCallBytes,
    }),
    stream(options, {
      name: 'OUTCOMES',
      subjects: ['outcome.>'],
      max_age: nanos(day),
      max_bytes: 4 * 1024 ** 3,
      max_msgs_per_subject: 1,
      max_msg_size: maxOutcomeBytes,
    }),
    // A session's last message holds its state; none lives longer.
    stream(options, { name: 'SESSIONS', subjects: ['session.>'], max_age: nanos(31 * day), max_msgs_per_subject: 1 }),
    stream(options, {
      name: 'ATTEMPTS',
      subjects: ['attempt.>'],
      max_age: nanos(day / 24),
      max_bytes: 256 * 1024 ** 2,
      discard: DiscardPolicy.Old,
      max_msgs_per_subject: 1,
    }),
    log(changeStream, ['cdc.>'], changeAgeMs, changeBytes),
    told('LOGS', ['log.>'], 4 * 1024 ** 3),
    { ...told('METRICS', ['metric.>'], 256 * 1024 ** 2), max_msgs_per_subject: keptSamples },
    stream(options, {
      name: 'TIMERS',
      subjects: ['timer.>', 'due.>'],
      allow_msg_schedules: true,
      allow_msg_ttl: true,
    }),
    stream(options, {
      name: 'DEAD',
      subjects: ['dead.>'],
      max_age: nanos(90 * day),
      // Room for why it died.
      max_msg_size: maxMessageBytes + 16 * 1024,
    }),
    // A counter's last message holds its total.
    stream(options, { name: 'COUNTERS', subjects: ['count.>'], allow_msg_counter: true, max_msgs_per_subject: 1 }),
    objectStore(options, bodyStore),
    bucket(options, platformBucket),
    { ...bucket(options, functionsBucket), max_bytes: functionsBytes },
    bucket(options, workflowsBucket),
  ]
}

/** As the client lays out object stores. Source: NATS ADR-20. */
function objectStore(options: TopologyOptions, name: string): StreamSpec {
  return stream(options, {
    name: `OBJ_${name}`,
    subjects: [`$O.${name}.C.>`, `$O.${name}.M.>`],
    discard: DiscardPolicy.New,
    allow_rollup_hdrs: true,
  })
}

/** As the client lays out key-value buckets. Source: NATS ADR-8. */
function bucket(options: TopologyOptions, name: string): StreamSpec {
  return stream(options, {
    name: `KV_${name}`,
    subjects: [`$KV.${name}.>`],
    discard: DiscardPolicy.New,
    max_msgs_per_subject: 1,
    // Room for the headers.
    max_msg_size: maxValueBytes + 4096,
    allow_rollup_hdrs: true,
    deny_delete: true,
    allow_msg_ttl: true,
  })
}

function stream({ replicas = 1 }: TopologyOptions, own: StreamSpec): StreamSpec {
  return {
    storage: StorageType.File,
    retention: RetentionPolicy.Limits,
    num_replicas: replicas,
    allow_direct: true,
    duplicate_window: nanos(duplicateWindowMs),
    max_msg_size: maxMessageBytes,
    ...own,
  }
}

export interface StreamOutcome {
  readonly name: string
  readonly outcome: 'created' | 'updated' | 'unchanged'
  /** Settings that were changed. */
  readonly changed: readonly string[]
}

/**
 * Makes the streams what they are declared to be: creates what is missing, updates what differs.
 * @throws {TopologyRefused} when the server is too old, takes too little in one message, forbids the change, or dropped a setting it does not know.
 */
export async function reconcileStreams(bus: Bus, specs: readonly StreamSpec[]): Promise<readonly StreamOutcome[]> {
  requireServer(bus.connection.info?.version ?? '0.0.0')
  requirePayload(bus.connection.info?.max_payload ?? 0, specs)
  const outcomes: StreamOutcome[] = []
  for (const spec of specs) outcomes.push(await reconcile(bus.manager, spec))
  return outcomes
}

/** @throws {TopologyRefused} below the minimum. */
export function requireServer(version: string): void {
  const numbers = (text: string) => text.split(/[.-]/, 3).map(Number)
  const [wanted, found] = [numbers(minimumServerVersion), numbers(version)]
  for (const index of [0, 1, 2]) {
    const difference = (found[index] ?? 0) - (wanted[index] ?? 0)
    if (difference > 0) return
    if (difference < 0) {
      throw new TopologyRefused(`nats-server ${version} is too old: ${minimumServerVersion} or newer is needed`)
    }
  }
}

/** @throws {TopologyRefused} when messages that a stream takes would not reach it. */
export function requirePayload(maxPayload: number, specs: readonly StreamSpec[]): void {
  const size = Math.max(0, ...specs.map(({ max_msg_size }) => max_msg_size ?? 0))
  if (size <= maxPayload) return
  throw new TopologyRefused(
    `nats-server takes messages of ${maxPayload} bytes, and up to ${size} are needed: set its max_payload to 8MB`,
  )
}

/** The settings of a spec that are not what the server reports. */
export function differences(spec: StreamSpec, actual: Partial<StreamConfig>): readonly string[] {
  return Object.entries(spec)
    .filter(([key, wanted]) => {
      const found = actual[key as keyof StreamConfig]
      // The server leaves out what is off, zero or unlimited.
      if (wanted === false || wanted === 0) return found !== undefined && found !== wanted
      if (wanted === -1) return found !== undefined && found !== -1 && found !== 0
      return JSON.stringify(found) !== JSON.stringify(wanted)
    })
    .map(([key]) => key)
}

async function reconcile(manager: JetStreamManager, declared: StreamSpec): Promise<StreamOutcome> {
  const before = await find(manager, declared.name)
  const spec = before === null ? declared : asMade(declared, before)
  const changed = before === null ? [] : differences(spec, before)
  if (before !== null && changed.length === 0) return { name: spec.name, outcome: 'unchanged', changed }
  const config = await put(manager, spec, before, changed)
  const dropped = differences(spec, config)
  if (dropped.length > 0) {
    throw new TopologyRefused(
      `The stream ${spec.name} did not take ${shown(spec, dropped)}: this nats-server does not know it; upgrade it`,
    )
  }
  return { name: spec.name, outcome: before === null ? 'created' : 'updated', changed }
}

/** What cannot be changed stays as the stream was made. */
function asMade({ persist_mode: _, ...spec }: StreamSpec, before: StreamConfig): StreamSpec {
  const { persist_mode } = before as StreamSpec
  return persist_mode === undefined ? spec : { ...spec, persist_mode }
}

async function find(manager: JetStreamManager, name: string): Promise<StreamConfig | null> {
  try {
    return (await manager.streams.info(name)).config
  } catch (error) {
    if (error instanceof JetStreamApiError && error.status === 404) return null
    throw error
  }
}

/** By the code of what nats-server says when it has no room for all that its streams may grow to. */
const roomFor: Readonly<Record<number, string>> = { 10028: 'max_mem: 512MB', 10047: 'max_file: 32GB' }

async function put(
  manager: JetStreamManager,
  spec: StreamSpec,
  before: StreamConfig | null,
  changed: readonly string[],
): Promise<StreamConfig> {
  try {
    if (before === null) return (await manager.streams.add(spec)).config
    return (await manager.streams.update(spec.name, spec)).config
  } catch (error) {
    if (!(error instanceof JetStreamApiError)) throw error
    const what =
      before === null
        ? 'cannot be created'
        : `cannot be changed (${shown(spec, changed)}; it has ${shown(before, changed)})`
    const advice = roomFor[error.code]
    const mend = advice === undefined ? '' : `: set ${advice} in the jetstream block of nats-server`
    throw new TopologyRefused(`The stream ${spec.name} ${what}: ${error.message}${mend}`, { cause: error })
  }
}

function shown(config: Partial<StreamConfig>, keys: readonly string[]): string {
  return keys.map((key) => `${key}=${JSON.stringify(config[key as keyof StreamConfig])}`).join(', ')
}

function nanos(milliseconds: number): number {
  return milliseconds * nanosPerMs
}
