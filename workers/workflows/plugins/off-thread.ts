import { type Transferable, Worker } from 'node:worker_threads'
import { TaskFailure } from '../plugin.ts'

export interface ThreadJob {
  /** URL of the module, and the name of the function it exports for this. */
  readonly module: string
  readonly call: string
  readonly argument: unknown
}

export interface ThreadOptions {
  /** Default 60 000. */
  readonly timeoutMs?: number
  /** Parts of the argument that are handed over in place of being copied. */
  readonly transfer?: readonly Transferable[]
}

export type ThreadAnswer =
  | { readonly result: unknown }
  | { readonly failed: { readonly kind: TaskFailure['kind']; readonly message: string } }

const maxHeapMb = 512
const defaultTimeoutMs = 60_000
/** At a time; the others wait for their turn. */
const maxThreads = 8
const maxIdle = 2
const idle: Worker[] = []
let running = 0
const waiting: (() => void)[] = []

/**
 * Calls a function in a thread of its own, so that whatever an expression, a pattern or a document costs, it costs the task and not
 * the worker: the thread is ended when the task is, and its memory is bounded. Threads that have answered are used again.
 *
 * @param place the module that exports the function, its name, and its one argument, which is copied
 * @throws {TaskFailure} what the function threw; `refused` when it takes too long or too much memory
 */
export async function offThread<Result>(
  { module, call, argument }: ThreadJob,
  signal: AbortSignal,
  options: ThreadOptions = {},
): Promise<Result> {
  await turn(signal)
  try {
    return await onThread<Result>({ module, call, argument }, signal, options)
  } finally {
    running--
    waiting.shift()?.()
  }
}

async function turn(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  while (running >= maxThreads) {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    waiting.push(resolve)
    try {
      await promise
    } catch (error) {
      waiting.splice(waiting.indexOf(resolve), 1)
      throw error
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }
  running++
}

async function onThread<Result>(
  job: ThreadJob,
  signal: AbortSignal,
  { timeoutMs = defaultTimeoutMs, transfer = [] }: ThreadOptions,
): Promise<Result> {
  const thread = idle.pop() ?? newThread()
  const answered = Promise.withResolvers<ThreadAnswer>()
  const stop = () => answered.reject(signal.reason)
  const broken = () =>
    answered.reject(new TaskFailure('refused', `It takes more than ${maxHeapMb} MB of memory, or ended the thread`))
  const timer = setTimeout(() => {
    answered.reject(new TaskFailure('refused', `It takes longer than ${timeoutMs} ms`))
  }, timeoutMs)
  signal.addEventListener('abort', stop, { once: true })
  thread.once('message', answered.resolve).once('error', broken).once('exit', broken)
  thread.ref()
  let isUsable = false
  try {
    thread.postMessage(job, transfer)
    const answer = await answered.promise
    isUsable = true
    if ('failed' in answer) throw new TaskFailure(answer.failed.kind, answer.failed.message)
    return answer.result as Result
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    // Each by itself: the class has listeners of its own, without which no answer comes any more.
    thread.off('message', answered.resolve).off('error', broken).off('exit', broken)
    if (isUsable) keep(thread)
    else await ended(thread)
  }
}

function newThread(): Worker {
  const thread = new Worker(new URL('./off-thread-main.ts', import.meta.url), {
    env: {},
    stdin: false,
    resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
  })
  const gone = () => {
    const at = idle.indexOf(thread)
    if (at >= 0) idle.splice(at, 1)
  }
  return thread.on('error', gone).on('exit', gone)
}

/** One that waits does not keep the process alive. */
function keep(thread: Worker): void {
  if (idle.length >= maxIdle) {
    void ended(thread)
    return
  }
  thread.unref()
  idle.push(thread)
}

async function ended(thread: Worker): Promise<void> {
  await thread.terminate()
}
