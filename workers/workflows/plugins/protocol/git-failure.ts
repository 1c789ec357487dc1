import { TaskFailure } from '../../plugin.ts'

/** A no of the server is final, its absence and a busy one are not. */
export function gitFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { code = '', message, data } = error as Error & { code?: string; data?: Record<string, unknown> }
  if (code === 'HttpError') {
    const status = Number(data?.statusCode)
    const passes = status === 408 || status === 429 || status >= 500
    return new TaskFailure(passes ? 'unavailable' : 'refused', `The server answered ${status}`, error)
  }
  if (code === 'PushRejectedError')
    return new TaskFailure('unavailable', 'Others push to the branch at the same time', error)
  if (code === 'NotFoundError') return new TaskFailure('refused', `It is not there: ${message}`, error)
  return new TaskFailure('refused', message, error)
}
