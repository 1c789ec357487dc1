import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { durationMs } from '../duration.ts'
import { readAnswer } from './http-answer.ts'
import { sentBody, withQuery } from './http-body.ts'
import { eventReading } from './http-events.ts'
import { type Answer, exchange } from './http-exchange.ts'
import { HttpOutput } from './http-output.ts'
import { readPages } from './http-paging.ts'
import { HttpInput } from './http-properties.ts'

export const http = definePlugin({
  id: 'http.request',
  name: 'HTTP request',
  category: 'Core',
  description:
    'Sends an HTTP request: with parameters, headers, a body or file, and authentication; with retries, page by page, to a file, or reading server-sent events. Reaches public addresses, and what the egress policy allows besides.',
  needs: 'The server at the URL; the example asks the workflow engine itself',
  input: HttpInput,
  output: HttpOutput,
  example: `name: is-it-there
tasks:
  - name: ask
    type: http.request
    properties:
      url: http://localhost:8080/healthz
  - name: tell
    type: util.log
    properties: { message: 'It answered {{ outputs.ask.status_code }}' }
`,
  async run(task) {
    const { input } = task
    const url = withQuery(input.url, input.query)
    const init = await requestInit(task, url)
    if (input.responseType === 'events') return await eventsOf(task, url, init)
    if (input.paging !== undefined) return await pagesOf(task, url, init)
    const answer = await exchange(task, url, init)
    const { body, uri } = await readAnswer(answer.bytes, answer.response.headers.get('content-type'), {
      type: input.responseType,
      files: task.services.files,
    })
    return { ...told(answer, url), body, uri, sizeBytes: answer.bytes.length, pages: 1, hasMore: false }
  },
})

async function requestInit(task: TaskRun<HttpInput>, url: URL): Promise<RequestInit> {
  const { input, services } = task
  const { method, redirect } = input
  const sent = await sentBody(input, services.files)
  if (sent !== null && (method === 'GET' || method === 'HEAD')) {
    throw new TaskFailure('refused', `properties.body cannot be sent with ${method}`)
  }
  signQuery(input, url)
  try {
    const headers = headersOf(task, sent?.contentType ?? null)
    return { method, headers, redirect, ...(sent !== null && { body: sent.body }) }
  } catch (cause) {
    // The library's text would show the value, which may be a secret.
    throw new TaskFailure('refused', 'properties.headers or auth has a name or value that no header can have', cause)
  }
}

function signQuery({ auth }: HttpInput, url: URL): void {
  if (auth?.type === 'apiKey' && auth.in === 'query') url.searchParams.set(auth.name, auth.value)
}

function headersOf({ input, idempotencyKey }: TaskRun<HttpInput>, contentType: string | null): Headers {
  const { method, auth } = input
  const headers = new Headers(input.headers)
  if (contentType !== null && !headers.has('content-type')) headers.set('content-type', contentType)
  // For servers that know it, a repeated request is not a second one.
  const repeats = method === 'POST' || method === 'PATCH'
  if (repeats && !headers.has('idempotency-key')) headers.set('idempotency-key', idempotencyKey)
  if (auth?.type === 'basic') {
    headers.set('authorization', `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}`)
  } else if (auth?.type === 'bearer') headers.set('authorization', `Bearer ${auth.token}`)
  else if (auth?.in === 'header') headers.set(auth.name, auth.value)
  return headers
}

async function pagesOf(task: TaskRun<HttpInput>, url: URL, init: RequestInit) {
  const { input, services } = task
  const type = input.responseType === 'auto' ? 'auto' : 'json'
  const ask = async (page: URL) => {
    signQuery(input, page)
    const answer = await exchange(task, page, init)
    const contentType = answer.response.headers.get('content-type')
    return { ...answer, body: (await readAnswer(answer.bytes, contentType, { type, files: services.files })).body }
  }
  const { items, pages, hasMore, attempts, sizeBytes, last } = await readPages(task, input.paging!, url, ask)
  return { ...told(last, url), body: [...items], uri: null, sizeBytes, pages, hasMore, attempts }
}

async function eventsOf(task: TaskRun<HttpInput>, url: URL, init: RequestInit) {
  const { input } = task
  const forMs = durationMs(input.events.for, 'properties.events.for')
  const reading = await eventReading({ max: input.events.max, forMs, maxBytes: input.maxBytes })
  try {
    ;(init.headers as Headers).set('accept', 'text/event-stream')
    const answer = await exchange(withTimeout(task, forMs), url, init, reading.begin)
    const body = [...reading.events()]
    return { ...told(answer, url), body, uri: null, sizeBytes: answer.bytes.length, pages: 1, hasMore: false }
  } finally {
    reading.close()
  }
}

/** The time for events does not count as time without an answer. */
function withTimeout(task: TaskRun<HttpInput>, forMs: number): TaskRun<HttpInput> {
  const timeout = durationMs(task.input.timeout, 'properties.timeout') + forMs
  return { ...task, input: { ...task.input, timeout } }
}

function told({ response, attempts }: Answer, url: URL) {
  return {
    status_code: response.status,
    headers: Object.fromEntries(response.headers),
    url: response.url === '' ? url.href : response.url,
    attempts,
  }
}
