import { get, type IncomingMessage, request } from 'node:http'
import { createParser } from 'eventsource-parser'
import { WebSocket } from 'ws'

// biome-ignore lint/suspicious/noExplicitAny: what a result holds is what the tests are about
export type Result = any

/** A client of one subscription that remembers its results. */
export interface Subscriber {
  readonly results: Result[]
  /** The texts as they came. */
  readonly texts: string[]
  /** Resolves when the server has ended it: with its errors, or null. */
  readonly ended: Promise<Result[] | null>
  until(condition: (results: readonly Result[]) => boolean): Promise<Result[]>
  pause(): void
  resume(): void
  close(): void
}

class Ears {
  readonly results: Result[] = []
  readonly texts: string[] = []
  readonly ending = Promise.withResolvers<Result[] | null>()
  readonly #waiting = new Set<() => void>()

  hear(text: string, result: Result): void {
    this.texts.push(text)
    this.results.push(result)
    for (const check of this.#waiting) check()
  }

  until = (condition: (results: readonly Result[]) => boolean): Promise<Result[]> => {
    const met = new Promise<Result[]>((resolve) => {
      const check = () => {
        if (!condition(this.results)) return
        this.#waiting.delete(check)
        resolve(this.results)
      }
      this.#waiting.add(check)
      check()
    })
    const early = this.ending.promise.then((errors) => {
      if (condition(this.results)) return this.results
      throw new Error(`it ended after ${this.results.length} results: ${JSON.stringify(errors)}`)
    })
    return Promise.race([met, early])
  }
}

const streamHeaders = { Accept: 'text/event-stream', 'Content-Type': 'application/json' }

export function ask(
  url: string,
  query: string,
  headers: Readonly<Record<string, string>> = {},
  method: 'POST' | 'GET' = 'POST',
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const options = { method, headers: { ...streamHeaders, ...headers }, agent: false } as const
    if (method === 'GET') {
      get(`${url}/graphql?query=${encodeURIComponent(query)}`, options, resolve).on('error', reject)
    } else {
      request(`${url}/graphql`, options, resolve).on('error', reject).end(JSON.stringify({ query }))
    }
  })
}

/** Over server-sent events; it is live when this resolves. */
export async function subscribeSse(
  url: string,
  query: string,
  headers: Readonly<Record<string, string>> = {},
  method: 'POST' | 'GET' = 'POST',
): Promise<Subscriber> {
  const response = await ask(url, query, headers, method)
  if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${await response.toArray()}`)
  const ears = new Ears()
  let errors: Result[] | null = null
  const parser = createParser({
    onEvent: ({ event, data }) => {
      if (event === 'complete') return ears.ending.resolve(errors)
      const result = JSON.parse(data)
      errors = result.errors ?? null
      if (errors === null) ears.hear(data, result)
    },
  })
  response.setEncoding('utf8').on('data', (text: string) => parser.feed(text))
  response.on('error', () => undefined).once('close', () => ears.ending.resolve(errors))
  return {
    results: ears.results,
    texts: ears.texts,
    ended: ears.ending.promise,
    until: ears.until,
    pause: () => response.pause(),
    resume: () => response.resume(),
    close: () => response.destroy(),
  }
}

/** A WebSocket of the protocol, for several operations. */
export class Socket {
  readonly socket: WebSocket
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
  pings = 0
  readonly #operations = new Map<string, Ears>()
  readonly #acknowledged = Promise.withResolvers<void>()
  #next = 0

  constructor(url: string, headers: Readonly<Record<string, string>> = {}, protocol = 'graphql-transport-ws') {
    this.socket = new WebSocket(`${url.replace('http', 'ws')}/graphql`, protocol, { headers })
    const closing = Promise.withResolvers<{ readonly code: number; readonly reason: string }>()
    this.closed = closing.promise
    this.#acknowledged.promise.catch(() => undefined)
    this.socket.on('error', (error) => this.#acknowledged.reject(error))
    this.socket.on('ping', () => {
      this.pings += 1
    })
    this.socket.on('close', (code, reason) => {
      closing.resolve({ code, reason: String(reason) })
      this.#acknowledged.reject(new Error(`closed with ${code} ${reason}`))
      for (const ears of this.#operations.values()) ears.ending.resolve(null)
    })
    this.socket.on('message', (message) => this.#hear(JSON.parse(String(message)), String(message)))
  }

  async init(payload: object = {}): Promise<this> {
    if (this.socket.readyState === WebSocket.CONNECTING)
      await new Promise((resolve, reject) => this.socket.once('open', resolve).once('error', reject))
    this.send({ type: 'connection_init', payload })
    await this.#acknowledged.promise
    return this
  }

  send(message: object | string): void {
    this.socket.send(typeof message === 'string' ? message : JSON.stringify(message))
  }

  start(query: string, others: object = {}): Subscriber {
    const id = `operation ${this.#next++}`
    const ears = new Ears()
    this.#operations.set(id, ears)
    this.send({ id, type: 'subscribe', payload: { query, ...others } })
    return {
      results: ears.results,
      texts: ears.texts,
      ended: ears.ending.promise,
      until: ears.until,
      pause: () => this.socket.pause(),
      resume: () => this.socket.resume(),
      close: () => this.send({ id, type: 'complete' }),
    }
  }

  #hear({ type, id, payload }: Result, text: string): void {
    const ears = this.#operations.get(id)
    if (type === 'connection_ack') this.#acknowledged.resolve()
    else if (type === 'next') ears?.hear(text, payload)
    else if (type === 'error') ears?.ending.resolve(payload)
    else if (type === 'complete') ears?.ending.resolve(null)
  }
}
