import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, Table } from '../data/catalog.ts'
import type { ChangeType } from '../data/changes-event.ts'
import type { Filter } from '../data/read-ast.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import type { Parameter } from '../data/statement.ts'
import { hinted, perhaps, shown } from '../data/suggestion.ts'
import { parseFilters, scopeOf, type UrlParameters } from './parse-list.ts'

export interface ChangesQuery {
  readonly types: ReadonlySet<ChangeType> | null
  readonly filter: Filter | null
  readonly parameters: readonly Parameter[]
  /** First sequence, or earliest time; null: what comes from now on. */
  readonly from: number | Date | null
  readonly snapshot: boolean
  /** One of `from`, `resume` and `snapshot` was given: the client wants to know where on the stream it is. */
  readonly placed: boolean
}

const changeTypes: readonly ChangeType[] = ['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']
const ownParameters = ['types', 'from', 'resume', 'snapshot', 'access_token'] as const
type OwnParameter = (typeof ownParameters)[number]

/**
 * The parameters of a change stream; all others are filters as of a list.
 * @param lastEventId counts with `from`, `resume` or `snapshot`, and before them: a browser that reconnects repeats its URL
 * @throws {Rejected} 400, naming the parameter.
 */
export function parseChanges(
  catalog: Catalog,
  table: Table,
  parameters: UrlParameters,
  { limits, lastEventId }: { readonly limits: ReadLimits; readonly lastEventId: string | undefined },
): ChangesQuery {
  const own: Partial<Record<OwnParameter, string>> = {}
  const filters: [string, string][] = []
  for (const [name, text] of parameters) {
    if (!isOwn(name)) filters.push([name, text])
    else if (own[name] !== undefined) refuse(name, 'is given twice')
    else own[name] = text
  }
  const scope = scopeOf(catalog, limits)
  const unwanted = filters.find(([name]) => name === 'select' || name === 'expand')
  if (unwanted) refuse(unwanted[0], 'is not for change streams, whose events are whole')
  const { filter } = parseFilters(table, filters, scope)
  const snapshot = flag('snapshot', own.snapshot)
  const placed = flag('resume', own.resume) || snapshot || own.from !== undefined
  const from = own.from === undefined ? null : parseFrom(own.from)
  return {
    types: own.types === undefined ? null : parseTypes(own.types),
    filter,
    parameters: scope.slots.values,
    from: placed && lastEventId ? parseLastEventId(lastEventId) : from,
    snapshot,
    placed,
  }
}

function isOwn(name: string): name is OwnParameter {
  return (ownParameters as readonly string[]).includes(name)
}

function refuse(field: string, reason: string, hint?: string): never {
  throw new Rejected('http/bad-request', `${field}: ${reason}`, { details: { field, reason }, ...hinted(hint) })
}

function flag(name: OwnParameter, text: string | undefined): boolean {
  if (text === undefined || text === 'false') return false
  return text === 'true' || text === '' || refuse(name, `expected true or false, not ${shown(text)}`)
}

function parseTypes(text: string): ReadonlySet<ChangeType> {
  const names = text.split(',').map((name) => name.trim().toUpperCase())
  const known = (name: string): name is ChangeType => (changeTypes as readonly string[]).includes(name)
  return new Set(
    names.map((name) =>
      known(name)
        ? name
        : refuse('types', `${shown(name)} is not one of ${changeTypes.join(', ')}`, perhaps(name, changeTypes)),
    ),
  )
}

function parseSequence(text: string): number | null {
  const sequence = /^\d{1,16}$/.test(text) ? Number(text) : null
  return sequence !== null && Number.isSafeInteger(sequence) ? sequence : null
}

const isoTime = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?$/

function parseFrom(text: string): number | Date {
  const sequence = parseSequence(text)
  if (sequence !== null) return Math.max(sequence, 1)
  // Of a plus sign that was not escaped the URL makes a space.
  const time = new Date(isoTime.test(text.replace(' ', '+')) ? text.replace(' ', '+') : Number.NaN)
  if (!Number.isNaN(time.getTime())) return time
  return refuse('from', `expected a position or a time as ISO 8601, not ${shown(text)}`)
}

function parseLastEventId(text: string): number {
  const sequence = parseSequence(text)
  return sequence === null ? refuse('Last-Event-ID', `is not an id of this stream: ${shown(text)}`) : sequence + 1
}
