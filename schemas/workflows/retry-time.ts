import type { RetryPlan } from './flow-plan.ts'
import type { Failure } from './task-result.ts'

/** When a failed attempt is followed by another; null when it is not. The chance in it is derived from what failed. */
export function retryTime(
  retry: RetryPlan | null,
  { key, attempt, failure, now }: { key: string; attempt: number; failure: Failure; now: number },
): number | null {
  if (retry === null || attempt >= retry.maxAttempts || failure.kind === 'refused' || failure.kind === 'lost')
    return null
  const grown = retry.backoff === 'constant' ? retry.delayMs : retry.delayMs * retry.factor ** (attempt - 1)
  const delay = Math.min(grown, retry.maxDelayMs)
  return Math.round(now + delay * (1 - retry.jitter * fraction(`${key}/${attempt}/${now}`)))
}

/** 0 to 1, the same for the same text. FNV-1a. */
function fraction(text: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  return (hash >>> 0) / 2 ** 32
}
