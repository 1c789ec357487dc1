import type { MessagePort } from 'node:worker_threads'
import type { GitHttpRequest, HttpClient } from 'isomorphic-git'
import { isPassing } from '../../passing-faults.ts'
import { TaskFailure, type TaskServices } from '../../plugin.ts'

// Requests of a thread are made by the worker, which knows where tasks may connect to.

interface Asked {
  readonly id: number
  readonly url: string
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | null
}

type Answer =
  | {
      readonly id: number
      readonly status: number
      readonly statusText: string
      readonly headers: Readonly<Record<string, string>>
      readonly body: Uint8Array
    }
  | { readonly id: number; readonly failed: { readonly kind: TaskFailure['kind']; readonly message: string } }

/** The thread's side. */
export function httpOver(port: MessagePort): HttpClient {
  const waiting = new Map<number, (answer: Answer) => void>()
  port.on('message', (answer: Answer) => waiting.get(answer.id)?.(answer))
  let last = 0
  return {
    async request({ url, method = 'GET', headers = {}, body }: GitHttpRequest) {
      last++
      const { promise, resolve } = Promise.withResolvers<Answer>()
      waiting.set(last, resolve)
      port.postMessage({ id: last, url, method, headers, body: body === undefined ? null : await collected(body) })
      const answer = await promise
      waiting.delete(answer.id)
      if ('failed' in answer) throw new TaskFailure(answer.failed.kind, answer.failed.message)
      const { status: statusCode, statusText: statusMessage, headers: given } = answer
      return { url, method, statusCode, statusMessage, headers: { ...given }, body: [answer.body] as never }
    },
  }
}

interface ServeOptions {
  readonly fetch: TaskServices['fetch']
  readonly signal: AbortSignal
  /** Added to every request. */
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
}

/** The worker's side. */
export function serveHttp(port: MessagePort, { fetch, signal, headers, timeoutMs }: ServeOptions): void {
  port.on('message', async (asked: Asked) => {
    const late = AbortSignal.timeout(timeoutMs)
    try {
      const response = await fetch(asked.url, {
        method: asked.method,
        headers: { ...asked.headers, ...headers },
        signal: AbortSignal.any([signal, late]),
        ...(asked.body !== null && { body: asked.body as BodyInit }),
      })
      const { status, statusText } = response
      const body = new Uint8Array(await response.arrayBuffer())
      port.postMessage({ id: asked.id, status, statusText, headers: Object.fromEntries(response.headers), body })
    } catch (error) {
      port.postMessage({ id: asked.id, failed: failureOf(error, late.aborted && !signal.aborted) })
    }
  })
}

function failureOf(error: unknown, isLate: boolean): Pick<TaskFailure, 'kind' | 'message'> {
  if (isLate) return { kind: 'timeout', message: 'The server does not answer' }
  if (error instanceof TaskFailure) return { kind: error.kind, message: error.message }
  const { message } = error as Error
  return { kind: isPassing(error) ? 'unavailable' : 'refused', message: `The server cannot be asked: ${message}` }
}

async function collected(parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Uint8Array> {
  const all: Uint8Array[] = []
  for await (const part of parts) all.push(part)
  return new Uint8Array(Buffer.concat(all))
}
