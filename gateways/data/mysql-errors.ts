import type { ErrorCode } from '../../schemas/errors.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'

/** The fields of a mysql2 error that matter here. */
export interface MysqlError {
  readonly errno?: number | undefined
  readonly code?: string | undefined
  readonly sqlState?: string | undefined
  readonly sqlMessage?: string | undefined
  readonly message: string
}

interface Rule {
  readonly code: ErrorCode
  /** The SQLSTATE that PostgreSQL has for it, by which the rest of the API knows what happened. */
  readonly sqlstate: string
  /** Instead of the database's own text. */
  readonly text?: string
  readonly hint?: string
  readonly retryAfterSeconds?: number
}

const away = {
  code: 'data/database-unavailable',
  text: 'The database cannot take the request now',
  retryAfterSeconds: 2,
} as const
const again = {
  code: 'data/database-unavailable',
  text: 'The write met another one at the same rows and was rolled back; the same request can succeed',
  retryAfterSeconds: 1,
} as const
const timeout = {
  code: 'data/statement-timeout',
  sqlstate: '57014',
  text: 'The statement ran longer than the limit and was stopped',
  hint: 'Ask for less at once, or filter by an indexed column.',
  retryAfterSeconds: 5,
} as const
const invalid = { code: 'data/invalid-value', sqlstate: '22000' } as const
const forbidden = {
  code: 'data/forbidden',
  sqlstate: '42501',
  text: 'The database account has no right to this',
} as const

/** By error number. Source: MySQL 8.4 error message reference; MariaDB knowledge base, "MariaDB Error Codes". */
const rules: Readonly<Record<number, Rule>> = {
  1020: { ...again, sqlstate: '40001' },
  1022: { code: 'data/conflict', sqlstate: '23505' },
  1036: { code: 'data/read-only', sqlstate: '25006' },
  1040: { ...away, sqlstate: '53300' },
  1044: forbidden,
  1045: { ...away, sqlstate: '28000' },
  1049: { code: 'data/unknown-table', sqlstate: '3F000', text: 'The database is not there' },
  1048: { code: 'data/constraint-violated', sqlstate: '23502' },
  1053: { ...away, sqlstate: '57P01' },
  1054: { code: 'data/unknown-column', sqlstate: '42703' },
  1062: { code: 'data/conflict', sqlstate: '23505' },
  1064: { code: 'data/database-error', sqlstate: '42601', text: 'The database does not understand the statement' },
  1114: { ...away, sqlstate: '53100' },
  1142: forbidden,
  1143: forbidden,
  1146: { code: 'data/unknown-table', sqlstate: '42P01' },
  1153: { code: 'data/too-complex', sqlstate: '54000', text: 'The request is larger than the database takes' },
  1169: { code: 'data/conflict', sqlstate: '23505' },
  1203: { ...away, sqlstate: '53300' },
  1205: { ...again, sqlstate: '55P03' },
  1213: { ...again, sqlstate: '40P01' },
  1216: { code: 'data/conflict', sqlstate: '23503' },
  1217: { code: 'data/conflict', sqlstate: '23503' },
  1226: { ...away, sqlstate: '53300' },
  1227: forbidden,
  1264: invalid,
  1265: invalid,
  1290: { code: 'data/read-only', sqlstate: '25006', text: 'The database takes no writes now' },
  1292: invalid,
  1317: timeout,
  1364: { code: 'data/constraint-violated', sqlstate: '23502' },
  1366: invalid,
  1367: invalid,
  1369: { code: 'data/constraint-violated', sqlstate: '44000' },
  1370: forbidden,
  1390: { code: 'data/too-complex', sqlstate: '54000' },
  1406: { code: 'data/invalid-value', sqlstate: '22001' },
  1411: invalid,
  1416: invalid,
  1426: invalid,
  1436: { code: 'data/too-complex', sqlstate: '54001', text: 'The request nests too deeply for the database' },
  1451: { code: 'data/conflict', sqlstate: '23503' },
  1452: { code: 'data/conflict', sqlstate: '23503' },
  1441: invalid,
  1471: { code: 'data/read-only', sqlstate: '25006' },
  1644: { code: 'data/database-error', sqlstate: 'P0001' },
  1690: invalid,
  1792: { code: 'data/read-only', sqlstate: '25006' },
  1836: { code: 'data/read-only', sqlstate: '25006', text: 'The database takes no writes now' },
  1906: { code: 'data/invalid-value', sqlstate: '428C9' },
  1927: { ...away, sqlstate: '57P01' },
  1969: timeout,
  3024: timeout,
  // GeoJSON and its coordinates.
  ...Object.fromEntries([3037, 3070, 3071, 3072, 3073, 3074, 3075, 3616, 3617].map((number) => [number, invalid])),
  3140: invalid,
  3141: invalid,
  3143: invalid,
  3144: invalid,
  3157: { code: 'data/too-complex', sqlstate: '54001', text: 'The JSON nests too deeply for the database' },
  3819: { code: 'data/constraint-violated', sqlstate: '23514' },
  3988: invalid,
  4025: { code: 'data/constraint-violated', sqlstate: '23514' },
  ...Object.fromEntries([4048, 4049, 4050, 4051, 4076, 4077].map((number) => [number, invalid])),
}

/** The connection's own failures have a word and no number. */
const lost: ReadonlySet<string> = new Set([
  'PROTOCOL_CONNECTION_LOST',
  'ECONNRESET',
  'ECONNREFUSED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])

export function isLost({ code, message }: MysqlError): boolean {
  return (code !== undefined && lost.has(code)) || /connection is in closed state|Connection lost/i.test(message)
}

/**
 * A database error as the caller may see it, in the words that PostgreSQL's errors have: Rejected or Unavailable with
 * `details.sqlstate`, or a plain Error (a fault, answered 500) for what no caller can cause. SQL text never passes.
 */
export function translateMysqlError(
  error: MysqlError,
  { anonymous }: { readonly anonymous?: boolean | undefined } = {},
): Error {
  const rule = rules[error.errno ?? 0]
  const said = error.sqlMessage ?? error.message
  if (rule === undefined)
    return new Error(`The database failed with ${error.errno ?? error.code}: ${said}`, { cause: error })
  const more = {
    details: detailsOf(rule.sqlstate, said),
    cause: error,
    ...(rule.hint === undefined ? {} : { hint: rule.hint }),
  }
  const text = rule.text ?? shownText(rule.sqlstate, said)
  if (rule.code === 'data/database-unavailable' || rule.code === 'data/statement-timeout')
    return new Unavailable(rule.code, text, { ...more, retryAfterSeconds: rule.retryAfterSeconds ?? 1 })
  if (rule.code === 'data/forbidden' && anonymous === true) {
    return new Rejected('http/unauthorized', text, {
      ...more,
      hint: 'A token may give the right: send Authorization: Bearer.',
    })
  }
  return new Rejected(rule.code, text, more)
}

/** Foreign keys are told with their whole definition, which is more than the caller asked about. */
function shownText(sqlstate: string, said: string): string {
  if (sqlstate !== '23503') return withoutTable(said)
  return /parent row/.test(said)
    ? 'Other rows refer to this one by a foreign key'
    : 'A foreign key refers to a row that is not there'
}

/** MySQL names a key with its table and MariaDB without, of columns it is the other way round. */
function withoutTable(said: string): string {
  return said
    .replace(/for key '[^'.]+\.([^']+)'/, "for key '$1'")
    .replace(/`[^`]+`\.`[^`]+`\.`([^`]+)`/, "'$1'")
    .replace(/ failed for `[^`]+`\.`[^`]+`/, ' failed')
}

function detailsOf(sqlstate: string, said: string): Record<string, string> {
  const column = /[Cc]olumn '([^']+)'|[Ff]ield '([^']+)'/.exec(said)
  const constraint = /CONSTRAINT `([^`]+)`/.exec(said)?.[1] ?? /for key '(?:[^'.]+\.)?([^']+)'/.exec(said)?.[1]
  const named = column?.[1] ?? column?.[2]
  return {
    sqlstate,
    ...(constraint === undefined ? {} : { constraint }),
    ...(named === undefined ? {} : { column: named }),
  }
}
