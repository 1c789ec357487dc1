import { parentPort } from 'node:worker_threads'
import type { ThreadAnswer, ThreadJob } from './off-thread.ts'
import { valueSize } from './value-size.ts'

const port = parentPort!
/** What is small here can be large once it is copied: the same text a million times. */
const maxAnswerBytes = 64 * 1024 ** 2

async function answerTo({ module, call, argument }: ThreadJob): Promise<ThreadAnswer> {
  try {
    const exported = (await import(module)) as Record<string, (argument: unknown) => unknown>
    const result = await exported[call]!(argument)
    if (valueSize(result, maxAnswerBytes) <= maxAnswerBytes) return { result }
    return { failed: { kind: 'refused', message: 'What comes out is larger than 64 MB' } }
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
