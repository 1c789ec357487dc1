// biome-ignore-all lint/complexity/noArguments: Web IDL counts arguments, undefined ones too
import { DOMException } from './dom-exception.ts'
import { clock, toText } from './intrinsics.ts'
import { report } from './log.ts'
import { setTimer } from './timers.ts'

interface EventState {
  target: EventTarget | null
  dispatching: boolean
  stopped: boolean
  prevented: boolean
}
let stateOf: (event: Event) => EventState

export class Event {
  readonly #state: EventState = { target: null, dispatching: false, stopped: false, prevented: false }
  readonly type: string
  readonly bubbles: boolean
  readonly cancelable: boolean
  readonly composed: boolean
  readonly timeStamp: number = clock()
  static {
    stateOf = (event) => event.#state
  }
  constructor(type: unknown, init?: { bubbles?: unknown; cancelable?: unknown; composed?: unknown }) {
    if (arguments.length === 0) throw new TypeError('Event needs a type')
    this.type = toText(type)
    this.bubbles = Boolean(init?.bubbles)
    this.cancelable = Boolean(init?.cancelable)
    this.composed = Boolean(init?.composed)
  }
  get target(): EventTarget | null {
    return this.#state.target
  }
  get currentTarget(): EventTarget | null {
    return this.#state.dispatching ? this.#state.target : null
  }
  get srcElement(): EventTarget | null {
    return this.#state.target
  }
  get eventPhase(): number {
    return this.#state.dispatching ? 2 : 0
  }
  get defaultPrevented(): boolean {
    return this.#state.prevented
  }
  get isTrusted(): boolean {
    return false
  }
  preventDefault(): void {
    if (this.cancelable) this.#state.prevented = true
  }
  stopPropagation(): void {}
  stopImmediatePropagation(): void {
    this.#state.stopped = true
  }
  composedPath(): EventTarget[] {
    return this.#state.dispatching && this.#state.target !== null ? [this.#state.target] : []
  }
}

export class CustomEvent extends Event {
  readonly detail: unknown
  constructor(type: unknown, init?: { detail?: unknown; cancelable?: unknown }) {
    super(type, init)
    this.detail = init?.detail ?? null
  }
}

type Callback = ((event: Event) => unknown) | { handleEvent: (event: Event) => unknown }
interface Listener {
  readonly type: string
  readonly callback: Callback
  readonly capture: boolean
  readonly once: boolean
  removed: boolean
}
type ListenerOptions = boolean | { capture?: unknown; once?: unknown; signal?: AbortSignal } | undefined

const captures = (options: ListenerOptions): boolean =>
  typeof options === 'object' && options !== null ? Boolean(options.capture) : Boolean(options)

export class EventTarget {
  #listeners: Listener[] = []
  addEventListener(type: unknown, callback: Callback | null, options?: ListenerOptions): void {
    if (callback === null || callback === undefined) return
    const name = toText(type)
    const capture = captures(options)
    const { once, signal } =
      typeof options === 'object' && options !== null ? options : { once: false, signal: undefined }
    if (signal?.aborted) return
    for (const known of this.#listeners)
      if (known.type === name && known.callback === callback && known.capture === capture) return
    this.#listeners = [...this.#listeners, { type: name, callback, capture, once: Boolean(once), removed: false }]
    signal?.addEventListener('abort', () => this.removeEventListener(name, callback, { capture }), { once: true })
  }
  removeEventListener(type: unknown, callback: Callback | null, options?: ListenerOptions): void {
    const name = toText(type)
    const capture = captures(options)
    this.#listeners = this.#listeners.filter((known) => {
      const found = known.type === name && known.callback === callback && known.capture === capture
      if (found) known.removed = true
      return !found
    })
  }
  dispatchEvent(event: Event): boolean {
    const state = stateOf(event)
    if (state.dispatching) throw new DOMException('The event is being dispatched already', 'InvalidStateError')
    state.target = this
    state.dispatching = true
    for (const listener of this.#listeners) {
      if (listener.type !== event.type || listener.removed) continue
      if (listener.once) this.removeEventListener(listener.type, listener.callback, { capture: listener.capture })
      call(listener.callback, this, event)
      if (state.stopped) break
    }
    state.dispatching = false
    state.stopped = false
    return !state.prevented
  }
}

function call(callback: Callback, target: EventTarget, event: Event): void {
  try {
    if (typeof callback === 'function') callback.call(target as never, event)
    else callback.handleEvent(event)
  } catch (error) {
    report('An event listener threw', error)
  }
}

let makeSignal: () => AbortSignal
let abortSignal: (signal: AbortSignal, reason: unknown) => void
let allowed = false

const MAX_TIMEOUT_MS = 2_147_483_647

export class AbortSignal extends EventTarget {
  #aborted = false
  #reason: unknown = undefined
  #onabort: ((event: Event) => unknown) | null = null
  #dependants: AbortSignal[] = []
  static {
    makeSignal = () => {
      allowed = true
      return new AbortSignal()
    }
    abortSignal = (signal, reason) => signal.#abort(reason)
  }
  constructor() {
    if (!allowed) throw new TypeError('Illegal constructor')
    allowed = false
    super()
  }
  static abort(reason?: unknown): AbortSignal {
    const signal = makeSignal()
    signal.#abort(reason)
    return signal
  }
  static timeout(ms: unknown): AbortSignal {
    const delay = Number(ms)
    if (!(delay >= 0 && delay <= MAX_TIMEOUT_MS)) throw new TypeError('The time-out must be a number of milliseconds')
    const signal = makeSignal()
    setTimer(() => signal.#abort(new DOMException('The operation timed out.', 'TimeoutError')), delay)
    return signal
  }
  static any(signals: Iterable<AbortSignal>): AbortSignal {
    const result = makeSignal()
    const sources = [...signals]
    for (const source of sources) if (!(#aborted in source)) throw new TypeError('Not an AbortSignal')
    for (const source of sources) {
      if (source.#aborted) {
        result.#aborted = true
        result.#reason = source.#reason
        return result
      }
    }
    for (const source of sources) source.#dependants.push(result)
    return result
  }
  get aborted(): boolean {
    return this.#aborted
  }
  get reason(): unknown {
    return this.#reason
  }
  get onabort(): ((event: Event) => unknown) | null {
    return this.#onabort
  }
  set onabort(callback: unknown) {
    if (this.#onabort !== null) this.removeEventListener('abort', this.#onabort)
    this.#onabort = typeof callback === 'function' ? (callback as (event: Event) => unknown) : null
    this.addEventListener('abort', this.#onabort)
  }
  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason
  }
  #abort(reason: unknown): void {
    if (this.#aborted) return
    const given = reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason
    const all: AbortSignal[] = [this]
    this.#mark(given)
    for (const dependant of this.#dependants) if (dependant.#mark(given)) all.push(dependant)
    this.#dependants = []
    for (const signal of all) {
      signal.dispatchEvent(new Event('abort'))
      const further = signal.#dependants
      signal.#dependants = []
      for (const dependant of further) dependant.#abort(given)
    }
  }
  #mark(reason: unknown): boolean {
    if (this.#aborted) return false
    this.#aborted = true
    this.#reason = reason
    return true
  }
}

export class AbortController {
  readonly #signal = makeSignal()
  get signal(): AbortSignal {
    return this.#signal
  }
  abort(reason?: unknown): void {
    abortSignal(this.#signal, reason)
  }
}
