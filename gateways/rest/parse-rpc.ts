import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, DatabaseFunction } from '../data/catalog.ts'
import { arrayLiteral } from '../data/filter.ts'
import { valueFault } from '../data/filter-value.ts'
import { isArray } from '../data/operators.ts'
import { defaultReadLimits, type ReadLimits } from '../data/read-limits.ts'
import { Slots } from '../data/read-request.ts'
import {
  type CallRequest,
  type CallResult,
  overloadFor,
  overloadsOf,
  resultOf,
  signatureOf,
} from '../data/rpc-request.ts'
import { hinted, shown } from '../data/suggestion.ts'
import { parseBody } from '../data/write-body.ts'
import type { UrlParameters } from './parse-list.ts'
import { offsetPage } from './parse-page.ts'

/**
 * `GET /rpc/<name>?<argument>=<text>`, for functions that change nothing. An argument given several times is an array. Functions
 * that return a set take `limit` and `offset`, unless these are arguments of theirs.
 * @throws {Rejected} `data/unknown-function`, `data/invalid-value`, `http/method-not-allowed` for volatile functions
 */
export function parseCallByQuery(
  catalog: Catalog,
  schema: string,
  name: string,
  parameters: UrlParameters,
  limits: ReadLimits = defaultReadLimits,
): CallRequest {
  const texts = new Map<string, string[]>()
  for (const [key, text] of parameters) {
    if (text.length > limits.maxValueLength)
      throw new Rejected('data/too-complex', `${shown(key)}: more than ${limits.maxValueLength} characters`)
    const earlier = texts.get(key)
    if (earlier) earlier.push(text)
    else texts.set(key, [text])
  }
  const overloads = overloadsOf(catalog, schema, name)
  const paging = pagingOf(overloads, texts)
  const called = overloadFor(overloads, [...texts.keys()])
  if (called.volatility === 'volatile') {
    throw new Rejected('http/method-not-allowed', `${name} may change data, so it is called with POST`, {
      details: { function: name },
    })
  }
  const slots = new Slots()
  const given = [...texts].map(([argument, values]) => ({
    name: argument,
    slot: slots.add(argumentText(called, argument, values)),
  }))
  return callRequest(called, given, null, paging, slots, limits)
}

/**
 * `POST /rpc/<name>` with a JSON object of named arguments; an empty body is none.
 * @throws {Rejected} `data/unknown-function`, `data/invalid-body`
 */
export function parseCallByBody(
  catalog: Catalog,
  schema: string,
  name: string,
  body: string,
  parameters: UrlParameters,
  limits: ReadLimits = defaultReadLimits,
): CallRequest {
  const overloads = overloadsOf(catalog, schema, name)
  const content = body.trim() === '' ? {} : parseBody(body)
  if (Array.isArray(content))
    throw new Rejected('data/invalid-body', 'The body must be a JSON object of named arguments')
  const called = overloadFor(overloads, Object.keys(content))
  const paging: Paging = {}
  for (const [key, text] of parameters) {
    if (!isSet(resultOf(called)) || (key !== 'limit' && key !== 'offset')) {
      throw new Rejected('http/bad-request', `${shown(key)} is not a parameter of this request`, {
        details: { field: key },
        hint: 'with POST the arguments go in the body',
      })
    }
    paging[key] = text
  }
  const slots = new Slots()
  const given = Object.keys(content).map((argument) => ({ name: argument, slot: null }))
  return callRequest(called, given, given.length === 0 ? null : slots.add(body), paging, slots, limits)
}

type Paging = { limit?: string; offset?: string }

/** Takes `limit` and `offset` out of the arguments where they are none. */
function pagingOf(overloads: readonly DatabaseFunction[], texts: Map<string, string[]>): Paging {
  const paging: Paging = {}
  if (!overloads.some((one) => isSet(resultOf(one)))) return paging
  for (const key of ['limit', 'offset'] as const) {
    const values = texts.get(key)
    if (values === undefined || overloads.some((one) => one.arguments.some((argument) => argument.name === key)))
      continue
    if (values.length > 1) throw new Rejected('http/bad-request', `${key} is given twice`, { details: { field: key } })
    paging[key] = values[0]!
    texts.delete(key)
  }
  return paging
}

function callRequest(
  called: DatabaseFunction,
  given: CallRequest['shape']['arguments'],
  body: number | null,
  paging: Paging,
  slots: Slots,
  limits: ReadLimits,
): CallRequest {
  const result = resultOf(called)
  const paged = isSet(result) ? offsetPage(paging, slots, limits) : null
  const page = paged?.page.kind === 'offset' ? paged.page : null
  const { schema, name, volatility } = called
  return {
    shape: {
      kind: 'call',
      schema,
      name,
      signature: signatureOf(called),
      arguments: called.arguments.flatMap(({ name: one }) => given.find((argument) => argument.name === one) ?? []),
      body,
      page,
    },
    parameters: slots.values,
    result,
    page: paged?.info ?? null,
    volatility,
  }
}

function isSet(result: CallResult): boolean {
  return result === 'rows' || result === 'values'
}

function argumentText(called: DatabaseFunction, name: string, values: readonly string[]): string {
  const { type, variadic } = called.arguments.find((argument) => argument.name === name)!
  const array = isArray(type)
  if (values.length > 1 && !array)
    throw new Rejected('http/bad-request', `${shown(name)} is given twice`, { details: { field: name } })
  const [first = ''] = values
  // A single value is an array as PostgreSQL writes it, or its only element.
  const text = array && (values.length > 1 || (variadic && !first.startsWith('{'))) ? arrayLiteral(values) : first
  const fault = valueFault(type, text)
  if (fault === null) return text
  throw new Rejected('data/invalid-value', `${name}: ${shown(text)} ${fault.reason} (the argument is ${type.name})`, {
    details: { field: name, reason: fault.reason },
    ...hinted(fault.hint),
  })
}
