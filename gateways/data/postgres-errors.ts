import type { ErrorCode } from '../../schemas/errors.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'

/** The fields of a PostgreSQL ErrorResponse that matter here (pg-protocol's DatabaseError has them all). */
export interface PostgresError {
  readonly code?: string | undefined
  readonly message: string
  readonly severity?: string | undefined
  readonly detail?: string | undefined
  readonly hint?: string | undefined
  readonly schema?: string | undefined
  readonly table?: string | undefined
  readonly column?: string | undefined
  readonly constraint?: string | undefined
}

export interface TranslationContext {
  /** Tokens are on and the caller sent none: a missing right is then 401, since a token may give it. Default false. */
  readonly anonymous?: boolean | undefined
  /** The error came from taking on the caller's role or claims, not from the caller's statement. Default false. */
  readonly takingRole?: boolean | undefined
}

interface Rule {
  readonly code: ErrorCode
  /** Instead of the database's own text. */
  readonly text?: string
  readonly hint?: string
  readonly retryAfterSeconds?: number
}

const away: Rule = {
  code: 'data/database-unavailable',
  text: 'The database cannot take the request now',
  retryAfterSeconds: 2,
}
const again: Rule = {
  code: 'data/database-unavailable',
  text: 'The write met another one at the same rows and was rolled back; the same request can succeed',
  retryAfterSeconds: 1,
}
const conflict: Rule = { code: 'data/conflict' }

/** By SQLSTATE, else by its class (the first two characters). Source: PostgreSQL manual, appendix A. */
const rules: Readonly<Record<string, Rule>> = {
  '08': away,
  '0A': { code: 'data/database-error' },
  '20': { code: 'data/database-error' },
  '21': { code: 'data/database-error' },
  '22': { code: 'data/invalid-value' },
  '22021': {
    code: 'data/invalid-value',
    text: 'Text for the database cannot hold the character U+0000',
  },
  '23': conflict,
  '23502': { code: 'data/constraint-violated' },
  '23514': { code: 'data/constraint-violated' },
  '25006': {
    code: 'data/read-only',
    hint: 'Reads run in a read-only transaction: what changes data needs a writing method (POST).',
  },
  '25P03': away,
  '2F': { code: 'data/database-error' },
  '3F': { code: 'data/database-error' },
  '40001': again,
  '40P01': again,
  '42': { code: 'data/database-error' },
  '42501': { code: 'data/forbidden' },
  '428C9': { code: 'data/invalid-value' },
  '42703': { code: 'data/unknown-column' },
  '42883': { code: 'data/database-error' },
  '42P01': { code: 'data/unknown-table' },
  '44000': { code: 'data/constraint-violated' },
  '53': away,
  '54': { code: 'data/too-complex' },
  '55': { code: 'data/database-error' },
  '55006': again,
  '55P03': again,
  '57014': {
    code: 'data/statement-timeout',
    text: 'The statement ran longer than the limit and was stopped',
    hint: 'Ask for less at once, or filter by an indexed column.',
    retryAfterSeconds: 5,
  },
  '57P01': away,
  '57P02': away,
  '57P03': away,
  '57P04': away,
  '57P05': away,
  HV00N: away,
  P0: { code: 'data/database-error' },
}

/** Classes in which an unlisted state is a fault of the database or of ours, never the caller's. */
const faultClasses = new Set([
  '24',
  '25',
  '26',
  '27',
  '28',
  '2B',
  '34',
  '38',
  '39',
  '3B',
  '3D',
  '57',
  '58',
  'F0',
  'HV',
  'XX',
])

/** `PT<status>` raised by a function of the database chooses the answer's status. Source: PostgREST, "Raise errors with HTTP Status Codes". */
const raisedStatus: Readonly<Record<string, ErrorCode>> = {
  PT400: 'data/database-error',
  PT401: 'http/unauthorized',
  PT403: 'data/forbidden',
  PT404: 'data/row-not-found',
  PT405: 'data/read-only',
  PT406: 'http/not-acceptable',
  PT409: 'data/conflict',
  PT412: 'data/precondition-failed',
  PT413: 'http/payload-too-large',
  PT429: 'http/too-many-requests',
}

const unavailableCodes: ReadonlySet<ErrorCode> = new Set(['data/database-unavailable', 'data/statement-timeout'])

/**
 * A database error as the caller may see it: Rejected or Unavailable with `details.sqlstate`, or a plain Error (a fault,
 * answered 500) for states no caller can cause. SQL text, positions and the server's source places never pass.
 */
export function translateDatabaseError(error: PostgresError, context: TranslationContext = {}): Error {
  const sqlstate = error.code ?? 'XX000'
  if (context.takingRole === true && /^(22023|42501|42704|0P000|28000)$/.test(sqlstate))
    return roleRefused(error, sqlstate)
  const raised = raisedStatus[sqlstate]
  const rule = raised === undefined ? ruleOf(sqlstate) : { code: raised }
  if (rule === null) {
    return new Error(`The database failed with ${sqlstate}: ${error.message}`, { cause: error })
  }
  const text = rule.text ?? error.message
  const details = detailsOf(error, sqlstate)
  const hint = rule.hint ?? error.hint
  const more = { details, cause: error, ...(hint === undefined ? {} : { hint }) }
  if (unavailableCodes.has(rule.code)) {
    return new Unavailable(rule.code, text, { ...more, retryAfterSeconds: rule.retryAfterSeconds ?? 1 })
  }
  if (rule.code === 'data/forbidden' && context.anonymous === true) {
    return new Rejected('http/unauthorized', text, {
      ...more,
      hint: 'A token may give the right: send Authorization: Bearer.',
    })
  }
  return new Rejected(rule.code, text, more)
}

function ruleOf(sqlstate: string): Rule | null {
  const exact = rules[sqlstate]
  if (exact !== undefined) return exact
  const group = sqlstate.slice(0, 2)
  if (faultClasses.has(group)) return null
  // What is left is a state of the database's own functions (`raise … using errcode`): theirs to tell.
  return rules[group] ?? { code: 'data/database-error' }
}

function roleRefused(error: PostgresError, sqlstate: string): Rejected {
  return new Rejected('data/forbidden', 'The database does not accept the role of this caller', {
    details: { sqlstate },
    hint: 'The role must exist in the database and be granted to the login role of this service.',
    cause: error,
  })
}

/**
 * `detail` passes only where it repeats the caller's own key or what a function of the database chose to say:
 * elsewhere it can show whole rows.
 */
function detailsOf(error: PostgresError, sqlstate: string): Record<string, string> {
  const tellsDetail = /^(23503|23505|23P01|P0001|PT...)$/.test(sqlstate)
  const fields = {
    sqlstate,
    constraint: error.constraint,
    column: error.column,
    table: error.table,
    detail: tellsDetail ? error.detail : undefined,
  }
  const told: Record<string, string> = {}
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) told[name] = value
  return told
}
