import { setImmediate } from 'node:timers/promises'
import type { AsyncOperation, SyncOperation } from '../sandbox/operations.ts'
import { pack } from '../sandbox/wire.ts'
import { OperationError, refusal } from './operations-error.ts'
import { LOG_LIMITS, type LogLimits, type LogLine, logSink } from './operations-log.ts'
import { type Asked, isLong, readAsked, subtleOperation } from './operations-subtle.ts'
import { syncOperations } from './operations-sync.ts'

/** What the operations of one isolate need of the process around it. */
export interface OperationsOptions {
  /** Calls the guest's `settle`. */
  readonly settle: (operationId: number, result: string) => void
  /** Calls the guest's `fire`. */
  readonly fire: (timerId: number) => void
  /** The call of this ticket can be taken. */
  readonly replyReady: (ticket: number) => void
  readonly waitsDone: () => void
  /** fetch and kv: answered by the supervisor with a result in `settle`'s form (`'='` + packet or `'!'` + error). */
  readonly forward: (name: ForwardedOperation, argument: string, invocationId: string) => Forwarded
  readonly onLog: (line: LogLine) => void
  /** The process's own thread does something for the isolate from now on. */
  readonly onWork: () => void
  readonly logLimits?: LogLimits
}

export interface Forwarded {
  readonly answer: Promise<string>
  /** Asks the supervisor to give it up; there is an answer all the same. */
  abandon(): void
}

export type ForwardedOperation = Extract<AsyncOperation, 'fetch' | `kv-${string}`>

/** The two functions to hand to the isolate. Neither ever throws; both take anything for arguments. */
export interface HostOperations {
  readonly op: (name: unknown, argument: unknown) => string
  readonly begin: (id: unknown, name: unknown, argument: unknown, invocationId: unknown) => void
  /** Operations begun and not settled, the timer left out. */
  readonly pending: () => number
  /** Operations that keep a thread of the process: they cannot be stopped. */
  readonly computing: () => number
  /** True while a wake-up is asked for. */
  readonly hasTimer: () => boolean
  /** Takes back the wake-up and drops every answer that still comes. */
  readonly close: () => void
}

const FORWARDED: ReadonlySet<string> = new Set<ForwardedOperation>([
  'fetch',
  'kv-get',
  'kv-put',
  'kv-delete',
  'kv-list',
])
const MAX_PENDING = 512
/**
 * Of one operation that the supervisor does, in characters: more it would refuse, and to convert and send much keeps the thread that all
 * isolates of the process share. The largest body of a request and what goes with it; a value of the store.
 */
const MAX_FETCH_CHARS = 6 * 1024 ** 2 + 128 * 1024
const MAX_KV_CHARS = 128 * 1024
/** Operations of the store that one isolate has under way there; more wait for their turn. */
const MAX_KV = 32
/** Of all that one isolate has under way there. */
const MAX_FORWARDED_CHARS = 16 * 1024 ** 2
/** They run on the four threads that all isolates of the process share. */
const MAX_SUBTLE = 2
/** Of those that may take seconds, in the whole process: the others find a thread. */
const longTurn = turns(2)
const MAX_TIMER_MS = 2_147_483_647

/** The host side of one isolate's operations. */
export function hostOperations(options: OperationsOptions): HostOperations {
  const sync = new Map(Object.entries(syncOperations(logSink(options.onLog, options.logLimits ?? LOG_LIMITS))))
  const turn = turns(MAX_SUBTLE)
  const kvTurn = turns(MAX_KV)
  let timer: NodeJS.Timeout | undefined
  const forwarded = new Map<number, Forwarded>()
  let forwardedChars = 0
  let pending = 0
  let computing = 0
  let closed = false

  function wake(id: number, argument: string): void {
    clearTimeout(timer)
    timer = undefined
    const ms = Number(argument)
    if (argument === '' || !(ms >= 0)) return
    timer = setTimeout(
      () => {
        timer = undefined
        options.fire(id)
      },
      Math.min(Math.max(1, ms), MAX_TIMER_MS),
    )
  }

  async function answer(id: number, name: string, argument: string, invocationId: string): Promise<string> {
    if (FORWARDED.has(name)) {
      const work = () => forward(id, name as ForwardedOperation, argument, invocationId)
      return await (name === 'fetch' ? work() : kvTurn(work))
    }
    if (name !== 'subtle') throw unknownOperation()
    const { head, rest } = await turn(async () => {
      // The others have their turn: reading what is asked for keeps the thread that all isolates of the process share.
      await setImmediate()
      const asked = readAsked(argument)
      return await (isLong(asked) ? longTurn(() => compute(asked)) : compute(asked))
    })
    return `=${pack(head, rest)}`
  }

  async function forward(id: number, name: ForwardedOperation, argument: string, invocationId: string) {
    if (closed) throw new OperationError('AbortError', 'The call is over')
    if (argument.length > (name === 'fetch' ? MAX_FETCH_CHARS : MAX_KV_CHARS))
      throw new OperationError(
        'TypeError',
        name === 'fetch' ? 'fetch failed: The request is too large' : 'A key or value is too large',
      )
    if (forwardedChars + argument.length > MAX_FORWARDED_CHARS)
      throw new OperationError('TypeError', `More than ${MAX_FORWARDED_CHARS} bytes of requests are under way`)
    forwardedChars += argument.length
    const operation = options.forward(name, argument, invocationId)
    forwarded.set(id, operation)
    try {
      return await operation.answer
    } finally {
      forwardedChars -= argument.length
    }
  }

  async function compute(asked: Asked) {
    if (closed) throw new OperationError('AbortError', 'The call is over')
    computing++
    options.onWork()
    try {
      return await subtleOperation(asked)
    } finally {
      computing--
    }
  }

  async function run(id: number, name: string, argument: string, invocationId: string): Promise<void> {
    pending++
    const result = await answer(id, name, argument, invocationId).catch(refusal)
    pending--
    forwarded.delete(id)
    if (!closed) options.settle(id, result)
  }

  return {
    op(name, argument) {
      options.onWork()
      try {
        const operation = sync.get(String(name) as SyncOperation)
        if (operation === undefined || typeof argument !== 'string') throw unknownOperation()
        return `=${operation(argument)}`
      } catch (error) {
        return refusal(error)
      }
    },
    begin(id, name, argument, invocationId) {
      options.onWork()
      if (closed || typeof id !== 'number' || typeof name !== 'string' || typeof argument !== 'string') return
      if (name === 'timer') wake(id, argument)
      else if (name === 'reply-ready') options.replyReady(id)
      else if (name === 'waits-done') options.waitsDone()
      else if (name === 'abandon') forwarded.get(id)?.abandon()
      else if (pending < MAX_PENDING) void run(id, name, argument, String(invocationId))
    },
    pending: () => pending,
    computing: () => computing,
    hasTimer: () => timer !== undefined,
    close() {
      closed = true
      clearTimeout(timer)
    },
  }
}

type Turn = <Value>(work: () => Promise<Value>) => Promise<Value>

/** Lets so many run at once, the others in the order they came. */
function turns(most: number): Turn {
  const waiting: (() => void)[] = []
  let running = 0
  return async (work) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve))
    else running++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}

const unknownOperation = () => new OperationError('TypeError', 'No such operation')
