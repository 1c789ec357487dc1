import { TaskFailure } from '../plugin.ts'

interface ProcessJob {
  /** Of a module that answers the one message it gets. */
  readonly module: URL
  /** What it is for, in failures. */
  readonly name: string
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * One message to a process of its own, and its answer: for native code that nothing else ends. The process gets nothing of the worker's
 * environment and is killed whatever comes.
 *
 * @throws {TaskFailure} `timeout`, and `refused` when it ends without an answer; the signal's reason
 */
export async function inOwnProcess<Answer>(
  { module, name, timeoutMs, signal }: ProcessJob,
  message: object,
): Promise<Answer> {
  signal.throwIfAborted()
  const { fork } = await import('node:child_process')
  const child = fork(module, {
    env: {},
    execArgv: ['--disable-warning=ExperimentalWarning'],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  const ended = Promise.withResolvers<Answer>()
  const timer = setTimeout(() => ended.reject(new TaskFailure('timeout', `Not done after ${timeoutMs} ms`)), timeoutMs)
  const stop = () => ended.reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  child.once('message', (answer) => ended.resolve(answer as Answer))
  child.once('error', (error) => ended.reject(error))
  child.once('exit', () => ended.reject(new TaskFailure('refused', `${name} ended without an answer`)))
  // What cannot be sent any more has ended, and is told so by that.
  child.send(message, () => undefined)
  try {
    return await ended.promise
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    child.kill('SIGKILL')
  }
}
