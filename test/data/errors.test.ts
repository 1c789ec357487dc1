import t from 'tap'
import { type PostgresError, translateDatabaseError } from '../../gateways/data/postgres-errors.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'

const everyField: PostgresError = {
  message: 'the message',
  severity: 'ERROR',
  detail: 'the detail',
  hint: 'the hint',
  schema: 'public',
  table: 'film',
  column: 'title',
  constraint: 'film_pkey',
}

const rows: readonly (readonly [sqlstate: string, status: number, code: string])[] = [
  ['23505', 409, 'data/conflict'],
  ['23503', 409, 'data/conflict'],
  ['23P01', 409, 'data/conflict'],
  ['23001', 409, 'data/conflict'],
  ['23502', 400, 'data/constraint-violated'],
  ['23514', 400, 'data/constraint-violated'],
  ['44000', 400, 'data/constraint-violated'],
  ['22P02', 400, 'data/invalid-value'],
  ['22003', 400, 'data/invalid-value'],
  ['22021', 400, 'data/invalid-value'],
  ['428C9', 400, 'data/invalid-value'],
  ['42501', 403, 'data/forbidden'],
  ['25006', 405, 'data/read-only'],
  ['42P01', 404, 'data/unknown-table'],
  ['42703', 400, 'data/unknown-column'],
  ['42883', 400, 'data/database-error'],
  ['21000', 400, 'data/database-error'],
  ['54001', 400, 'data/too-complex'],
  ['P0001', 400, 'data/database-error'],
  ['ABC12', 400, 'data/database-error'],
  ['PT401', 401, 'http/unauthorized'],
  ['PT404', 404, 'data/row-not-found'],
  ['PT409', 409, 'data/conflict'],
  ['PT429', 429, 'http/too-many-requests'],
  ['57014', 503, 'data/statement-timeout'],
  ['40001', 503, 'data/database-unavailable'],
  ['40P01', 503, 'data/database-unavailable'],
  ['53300', 503, 'data/database-unavailable'],
  ['53100', 503, 'data/database-unavailable'],
  ['57P01', 503, 'data/database-unavailable'],
  ['57P03', 503, 'data/database-unavailable'],
  ['08006', 503, 'data/database-unavailable'],
]

for (const [sqlstate, status, code] of rows) {
  t.test(`${sqlstate} is answered ${status} ${code} and keeps its state`, async (t) => {
    const failure = translateDatabaseError({ ...everyField, code: sqlstate })
    t.match(failure, { status, code, details: { sqlstate, constraint: 'film_pkey', column: 'title', table: 'film' } })
    t.ok(status === 503 ? failure instanceof Unavailable : failure instanceof Rejected)
  })
}

for (const sqlstate of ['XX000', '58030', '26000', '25P02', '28P01', '3D000', 'F0000']) {
  t.test(`${sqlstate} is a fault, not the caller's`, async (t) => {
    const failure = translateDatabaseError({ ...everyField, code: sqlstate })
    t.notOk(failure instanceof Rejected || failure instanceof Unavailable)
    t.match(failure.message, sqlstate)
  })
}

t.test('a missing right is 401 for a caller who sent no token, since a token may give it', async (t) => {
  const denied = { message: 'permission denied for table film', code: '42501' }
  t.match(translateDatabaseError(denied, { anonymous: true }), { status: 401, code: 'http/unauthorized' })
  t.match(translateDatabaseError(denied, { anonymous: false }), { status: 403, message: denied.message })
})

t.test('a role that cannot be taken on is told without naming the login role', async (t) => {
  const denied = { message: 'permission denied to set role "boss" from "login_name"', code: '42501' }
  const failure = translateDatabaseError(denied, { takingRole: true })
  t.match(failure, { code: 'data/forbidden', status: 403 })
  t.notMatch(failure.message, /login_name/)
})

t.test('the detail passes where it repeats the caller’s key, not where it shows rows', async (t) => {
  const detailOf = (code: string) => {
    const failure = translateDatabaseError({ message: 'm', code, detail: 'Failing row contains (1, secret).' })
    return (failure as Rejected).details as { detail?: string }
  }
  t.equal(detailOf('23505').detail, 'Failing row contains (1, secret).')
  t.equal(detailOf('P0001').detail, 'Failing row contains (1, secret).')
  for (const code of ['23502', '23514', '44000', '22P02']) t.equal(detailOf(code).detail, undefined, code)
})
