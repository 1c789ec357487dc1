import { lookup } from 'node:dns/promises'
import { followHops, hopOf } from '../egress/follow.ts'
import { FetchRefused } from '../egress/hop.ts'
import { type EgressPolicy, egressPolicy } from '../egress/policy.ts'
import { TaskFailure, type TaskRequestInit, type TaskServices } from './plugin.ts'

export interface EgressSettings {
  readonly allow: readonly string[]
  readonly deny: readonly string[]
}

const maxResponseBytes = 64 * 1024 * 1024
const maxRedirects = 5
/** Any other may be a key, and is for the server that it was written for. */
const keptElsewhere: ReadonlySet<string> = new Set(['accept', 'accept-language', 'content-type', 'user-agent'])
const bodiless = new Set([101, 204, 205, 304])

/** The web's `fetch` for tasks, under the platform's egress policy: public addresses, and what is allowed besides. */
export function taskFetch(settings: EgressSettings): TaskServices['fetch'] {
  const policy = egressPolicy(settings)
  return async (target, init = {}) => {
    const request = new Request(target, init)
    try {
      return await send(policy, request, init)
    } catch (error) {
      if (error instanceof FetchRefused) throw new TaskFailure('refused', error.message, error)
      throw error
    }
  }
}

async function send(
  policy: EgressPolicy,
  request: Request,
  { redirect = 'follow', partial }: TaskRequestInit,
): Promise<Response> {
  const body = request.body === null ? null : Buffer.from(await request.arrayBuffer())
  const first = hopOf(request.url, request.method, [...request.headers], body)
  const resolve = (host: string) => lookup(host, { all: true })
  const options = {
    policy,
    resolve,
    maxResponseBytes,
    maxRedirects,
    redirect,
    keptElsewhere,
    ...(partial && { partial }),
  }
  const { answer, url, redirected } = await followHops(first, options, request.signal)
  const { status, statusText, headers } = answer
  const response = new Response(bodiless.has(status) ? null : new Uint8Array(answer.body), {
    status,
    statusText,
    headers: headers as [string, string][],
  })
  Object.defineProperties(response, { url: { value: url.href }, redirected: { value: redirected } })
  return response
}
