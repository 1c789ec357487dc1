import { parentPort } from 'node:worker_threads'
import type { ThreadAnswer, ThreadJob } from './off-thread.ts'

const port = parentPort!

async function answerTo({ module, call, argument }: ThreadJob): Promise<ThreadAnswer> {
  try {
    const exported = (await import(module)) as Record<string, (argument: unknown) => unknown>
    return { result: await exported[call]!(argument) }
  } catch (error) {
    const { kind, message } = (error ?? {}) as { kind?: 'refused' | 'unavailable' | 'timeout'; message?: unknown }
    return { failed: { kind: kind ?? 'refused', message: String(message ?? error).slice(0, 1_000) } }
  }
}

port.on('message', async (job: ThreadJob) => {
  const answer = await answerTo(job)
  try {
    port.postMessage(answer)
  } catch {
    port.postMessage({ failed: { kind: 'refused', message: 'The result is nothing that JSON can hold' } })
  }
})
