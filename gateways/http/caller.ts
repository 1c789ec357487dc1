import { setMaxListeners } from 'node:events'
import type { FastifyReply } from 'fastify'

const gone = new Error('The caller went away')
const signals = new WeakMap<FastifyReply, AbortSignal>()

/** Whether this is what ended the work: nobody is there to be told. */
export function isCallerGone(error: unknown): boolean {
  return error === gone
}

/** Aborts when the caller goes away before the answer has been sent; not when it has, as fastify's own signal does. */
export function untilCallerGone(reply: FastifyReply): AbortSignal {
  const known = signals.get(reply)
  if (known !== undefined) return known
  const controller = new AbortController()
  // Each statement of a request listens.
  setMaxListeners(0, controller.signal)
  signals.set(reply, controller.signal)
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort(gone)
  })
  return controller.signal
}
