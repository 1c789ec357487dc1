import type { SubscriptionTarget } from './subscription-live.ts'
import { RequestErrors } from './subscription-plan.ts'

export interface SocketOperationOptions {
  /** Where results go. */
  readonly target: Omit<SubscriptionTarget, 'fail'>
  /** Does the work, which may give what goes on until it is closed. */
  run(target: SubscriptionTarget): Promise<{ close(): void } | null>
  errorsOf(error: unknown): readonly object[]
}

const ended = { done: true, value: undefined } as const

/**
 * An operation as graphql-ws holds it: an iterator that yields nothing, because results are written beside it, and that ends when the
 * operation does; by throwing `RequestErrors` when it fails.
 */
export function socketOperation({ target, run, errorsOf }: SocketOperationOptions): AsyncGenerator<never, void, void> {
  const done = Promise.withResolvers<void>()
  let open = true
  let started = false
  let running: { close(): void } | null = null
  const finish = (errors: readonly object[] | null): void => {
    if (!open) return
    open = false
    running?.close()
    if (errors === null) done.resolve()
    else done.reject(new RequestErrors(errors))
  }
  const start = async (): Promise<void> => {
    try {
      running = await run({
        requestId: target.requestId,
        get unsentBytes() {
          return target.unsentBytes
        },
        next(payload) {
          if (open) target.next(payload)
        },
        fail: finish,
        drained: () => target.drained(),
      })
      if (running === null) finish(null)
      else if (!open) running.close()
    } catch (error) {
      finish(errorsOf(error))
    }
  }
  const stop = async () => {
    finish(null)
    return ended
  }
  const operation: AsyncGenerator<never, void, void> = {
    async next() {
      if (!started) {
        started = true
        void start()
      }
      await done.promise
      return ended
    },
    return: stop,
    throw: stop,
    [Symbol.asyncIterator]: () => operation,
    [Symbol.asyncDispose]: async () => {
      await stop()
    },
  }
  return operation
}
