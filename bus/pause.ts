import type { Bus } from './connect.ts'

/** Resolves after the time, or at the signal. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
}

/** As `pause`, and also as soon as a lost connection is back: then nothing is gained by waiting. */
export async function pauseUnlessBack(bus: Bus, ms: number, signal?: AbortSignal): Promise<void> {
  const back = new AbortController()
  const forget = bus.onReconnect(() => back.abort())
  try {
    await pause(ms, signal === undefined ? back.signal : AbortSignal.any([back.signal, signal]))
  } finally {
    forget()
  }
}
