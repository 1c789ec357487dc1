import { CallBody, isJson } from './body.ts'
import { type CallContext, contextOf, isWaiting, setEnv } from './context.ts'
import { failureReply, Refusal } from './failure.ts'
import { enter, tell } from './host.ts'
import {
  indexOf,
  isArray,
  isCallable,
  jsonParse,
  mapDelete,
  mapGet,
  mapSet,
  NativeMap,
  NativeTypeError,
  objectKeys,
} from './intrinsics.ts'
import type { GuestCall } from './operations.ts'
import { successReply } from './reply.ts'
import { jsonReply } from './wire.ts'

type Handler = (data: unknown, context: CallContext) => unknown
type Program = (exports: object, require: (name: unknown) => never, module: { exports: unknown }) => unknown

let handler: Handler | null = null

function require(name: unknown): never {
  throw new NativeTypeError(`A function cannot load modules: require("${String(name)}") is not supported`)
}

/** Runs the program and finds its handler; that there is none is said by each call. */
export function load(program: unknown, envJson: string): string {
  try {
    setEnv(envJson)
    const module = { exports: {} as unknown }
    const declared = (program as Program)(module.exports as object, require, module)
    handler = findHandler(module.exports, declared)
    return ''
  } catch (error) {
    return failureReply(error)
  }
}

function findHandler(exported: unknown, declared: unknown): Handler | null {
  const named = memberOf(exported, 'handler')
  if (named !== null) return named
  if (isCallable(declared)) return declared as Handler
  if (isCallable(exported)) return exported as Handler
  return memberOf(exported, 'default') ?? memberOf((exported as { default?: unknown } | null)?.default, 'handler')
}

function memberOf(holder: unknown, name: 'handler' | 'default'): Handler | null {
  if ((typeof holder !== 'object' && typeof holder !== 'function') || holder === null) return null
  const member = (holder as Record<string, unknown>)[name]
  return isCallable(member) ? (member as Handler) : null
}

const MISSING = 'No handler function exported'
const BAD_JSON = 'The request body is not valid JSON'

/** Replies of calls that have settled and were not taken yet; 'asked' when the host wants to be told. */
const tickets = new NativeMap<number, { reply: string; asked: boolean }>()
let lastTicket = 0
let lastStart = ''

export function start(...given: (string | number)[]): string {
  lastStart = ''
  let outcomes = ''
  for (let at = 0; at < given.length; at += 3) {
    const outcome = run(given[at] as string, given[at + 1] as string, given[at + 2] as number)
    const text = typeof outcome === 'number' ? `#${outcome}` : outcome
    outcomes += `${text.length}:${text}`
  }
  lastStart = outcomes
  return outcomes
}

function run(callJson: string, body: string, bodyKind: number): string | number {
  try {
    const call = jsonParse(callJson) as GuestCall
    enter(call.invocationId)
    if (handler === null) throw new Refusal('no-handler', MISSING)
    const given = new CallBody(body, bodyKind)
    const data = dataOf(call, given)
    if (data === BadJson) return badRequest()
    const result = handler(data, contextOf(call, given))
    if (!isThenable(result)) return successReply(result, isWaiting())
    const ticket = ++lastTicket
    mapSet(tickets, ticket, { reply: '', asked: false })
    void finish(ticket, result)
    return ticket
  } catch (error) {
    return failureReply(error)
  }
}

const BadJson = {}

/** The handler's first argument: parsed JSON for a JSON request (undefined when it is empty), else the request itself. */
function dataOf(call: GuestCall, body: CallBody): unknown {
  const { headers, method } = call
  if (!isJson(headers['content-type'])) return { method, url: urlOf(call), headers, body: body.text }
  const text = body.text
  if (text === '') return undefined
  try {
    return jsonParse(text)
  } catch {
    return BadJson
  }
}

function badRequest(): string {
  return jsonReply(400, false, `{"error":"${BAD_JSON}"}`)
}

const { encodeURIComponent: encode } = globalThis

function urlOf({ headers, path, query }: GuestCall): string {
  let search = ''
  const names = objectKeys(query)
  for (let at = 0; at < names.length; at++) {
    const name = names[at] as string
    const given = query[name] as string | readonly string[]
    const values = isArray(given) ? (given as readonly string[]) : [given as string]
    for (let one = 0; one < values.length; one++)
      search += `${search === '' ? '?' : '&'}${encode(name)}=${encode(values[one] as string)}`
  }
  if (indexOf(path, '?') >= 0) search = ''
  return `${headers['x-forwarded-proto'] ?? 'http'}://${headers.host ?? 'localhost'}${path}${search}`
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false
  return typeof (value as { then?: unknown }).then === 'function'
}

async function finish(ticket: number, result: PromiseLike<unknown>): Promise<void> {
  let reply: string
  try {
    reply = successReply(await result, isWaiting())
  } catch (error) {
    reply = failureReply(error)
  }
  const entry = mapGet(tickets, ticket)
  if (entry === undefined) return
  entry.reply = reply
  if (entry.asked) tell(ticket, 'reply-ready')
}

export function take(ticket: number): string {
  if (ticket === 0) return lastStart
  const entry = mapGet(tickets, ticket)
  if (entry === undefined) return ''
  if (entry.reply === '') entry.asked = true
  else mapDelete(tickets, ticket)
  return entry.reply
}
