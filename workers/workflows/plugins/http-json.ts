import { TaskFailure, type TaskRun } from '../plugin.ts'

export interface JsonCall {
  /** Whom a failure names. */
  readonly service: string
  readonly url: string
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent as JSON unless it is a text, which has a content type of its own; absent: nothing. */
  readonly body?: unknown
}

const maxAnswerBytes = 10 * 1024 * 1024
const maxTold = 500

/**
 * One request, and its answer: parsed where it is JSON, else as text, null when there is none.
 * @throws {TaskFailure} `refused` for a no, `unavailable` for what can be tried again
 */
export async function callJson(
  { signal, services, log }: Pick<TaskRun<unknown>, 'signal' | 'services' | 'log'>,
  { service, url, method, headers, body }: JsonCall,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const sent = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
  const response = await services.fetch(url, {
    method,
    headers: {
      Accept: 'application/json',
      'User-Agent': 'busbar',
      ...(sent !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(sent !== undefined && { body: sent }),
    signal,
  })
  const answer = await answerOf(service, response)
  if (response.ok) return { status: response.status, body: answer }
  const told = typeof answer === 'string' ? answer : JSON.stringify(answer)
  log.warn(`${service} answered ${response.status}`)
  const again = response.status === 408 || response.status === 429 || response.status >= 500
  throw new TaskFailure(
    again ? 'unavailable' : 'refused',
    `${service} answered ${response.status}: ${told.slice(0, maxTold)}`,
  )
}

async function answerOf(service: string, response: Response): Promise<unknown> {
  const declared = Number(response.headers.get('content-length') ?? 0)
  if (declared > maxAnswerBytes) throw new TaskFailure('refused', `The answer of ${service} is larger than 10 MB`)
  const bytes = Buffer.from(await response.arrayBuffer())
  if (bytes.length > maxAnswerBytes) throw new TaskFailure('refused', `The answer of ${service} is larger than 10 MB`)
  const text = bytes.toString('utf8')
  if (text === '') return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
