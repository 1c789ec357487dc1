import { currentInvocation, enter, limits, tell } from './host.ts'
import {
  apply,
  clock,
  mapDelete,
  mapForEach,
  mapSet,
  mapSize,
  maximum,
  minimum,
  NativeMap,
  NativeRangeError,
  NativeTypeError,
  push,
  toNumber,
} from './intrinsics.ts'
import { report } from './log.ts'

/** The timers are kept here and the host holds one wake-up for the earliest, so a flood of them costs only this isolate. */
interface Timer {
  readonly run: (...args: unknown[]) => unknown
  readonly args: unknown[]
  readonly everyMs: number | null
  readonly invocationId: string
  due: number
}

const WAKE_UP = 1
const MIN_INTERVAL_MS = 4
const MAX_DELAY_MS = 2_147_483_647
const timers = new NativeMap<number, Timer>()
let lastTimer = 0
let armedFor = Number.POSITIVE_INFINITY

function add(run: unknown, delay: unknown, repeats: boolean, args: unknown[]): number {
  if (typeof run !== 'function') throw new NativeTypeError('The callback of a timer must be a function')
  if (mapSize(timers as never) >= limits.maxTimers)
    throw new NativeRangeError(`More than ${limits.maxTimers} timers are set`)
  const asked = toNumber(delay)
  const ms = asked >= 1 && asked <= MAX_DELAY_MS ? asked : 1
  const everyMs = repeats ? maximum(ms, MIN_INTERVAL_MS) : null
  const due = clock() + (everyMs ?? ms)
  const id = ++lastTimer
  mapSet(timers, id, { run: run as Timer['run'], args, everyMs, invocationId: currentInvocation(), due })
  if (due < armedFor) arm(due)
  return id
}

export const setTimer = (run: unknown, delay?: unknown, ...args: unknown[]): number => add(run, delay, false, args)
export const setRepeating = (run: unknown, delay?: unknown, ...args: unknown[]): number => add(run, delay, true, args)

export function clearTimer(id?: unknown): void {
  mapDelete(timers, toNumber(id))
  if (mapSize(timers as never) === 0 && armedFor !== Number.POSITIVE_INFINITY) {
    armedFor = Number.POSITIVE_INFINITY
    tell(WAKE_UP, 'timer', '')
  }
}

function arm(due: number): void {
  armedFor = due
  tell(WAKE_UP, 'timer', `${maximum(1, due - clock())}`)
}

/** The host's wake-up: runs what is due, in the order of the due times, and asks for the next one. */
export function fire(): void {
  const now = clock()
  const due: [number, Timer][] = []
  mapForEach(timers, (timer, id) => {
    if (timer.due <= now) insertByTime(due, [id, timer])
  })
  for (let at = 0; at < due.length; at++) runTimer(due[at] as [number, Timer], now)
  let next = Number.POSITIVE_INFINITY
  mapForEach(timers, (timer) => {
    next = minimum(next, timer.due)
  })
  armedFor = Number.POSITIVE_INFINITY
  if (next !== Number.POSITIVE_INFINITY) arm(next)
}

function insertByTime(list: [number, Timer][], entry: [number, Timer]): void {
  push(list, entry)
  for (let at = list.length - 1; at > 0; at--) {
    const before = list[at - 1] as [number, Timer]
    if (before[1].due <= entry[1].due) return
    list[at] = before
    list[at - 1] = entry
  }
}

function runTimer([id, timer]: [number, Timer], now: number): void {
  if (!mapDelete(timers, id)) return
  if (timer.everyMs !== null) {
    timer.due = now + timer.everyMs
    mapSet(timers, id, timer)
  }
  enter(timer.invocationId)
  try {
    apply(timer.run, undefined, timer.args)
  } catch (error) {
    report('A timer threw', error)
  }
}

export const microtask = (run: unknown): void => {
  if (typeof run !== 'function') throw new NativeTypeError('queueMicrotask needs a function')
  void runSoon(run as () => void)
}

async function runSoon(run: () => void): Promise<void> {
  await undefined
  try {
    run()
  } catch (error) {
    report('A microtask threw', error)
  }
}
