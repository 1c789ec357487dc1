import { type KeyStore, statement } from './statement.ts'

const cleanAtMost = 500

/** What an owner runs when the service's login role may not create the table itself. */
const tableStatements = [
  'create schema if not exists busbar',
  `create table if not exists busbar.idempotency (
  actor text not null,
  key text not null,
  fingerprint text not null,
  status int,
  headers text,
  body bytea,
  created_at timestamptz not null default now(),
  primary key (actor, key)
)`,
  'create index if not exists idempotency_created_at on busbar.idempotency (created_at)',
]
const grantStatements = [
  'grant usage on schema busbar to <the login role of this service>',
  'grant select, insert, update, delete on busbar.idempotency to <the login role of this service>',
]

/** Serialises the first uses of several gateways: `create … if not exists` alone fails when two meet. */
const lockTableCreation = statement(`select pg_catalog.pg_advisory_xact_lock(hashtext('busbar.idempotency'))`)
const claimKey = statement(
  `insert into busbar.idempotency as held (actor, key, fingerprint) values ($1, $2, $3)
   on conflict (actor, key) do update
   set fingerprint = excluded.fingerprint, status = null, headers = null, body = null, created_at = now()
   where held.created_at < now() - interval '24 hours'`,
)
/** The whole request's row, under which its parts are: taken by the first part, and locked by each. */
const claimRequest = statement(
  `insert into busbar.idempotency as held (actor, key, fingerprint) values ($1, $2, $3)
   on conflict (actor, key) do update
   set fingerprint = excluded.fingerprint, status = null, headers = null, body = null,
     created_at = case when held.created_at < now() - interval '24 hours' then now() else held.created_at end
   where held.fingerprint = excluded.fingerprint or held.created_at < now() - interval '24 hours'`,
)
const readReply = statement(
  'select fingerprint, status, headers, body from busbar.idempotency where actor = $1 and key = $2',
)
const backToLoginRole = statement(`select pg_catalog.set_config('role', 'none', true)`)
const storeReply = statement(
  `update busbar.idempotency set status = $3::int, headers = $4, body = decode($5, 'base64') where actor = $1 and key = $2`,
)
const cleanUp = statement(
  `delete from busbar.idempotency where (actor, key) in (
     select actor, key from busbar.idempotency where created_at < now() - interval '24 hours'
     order by created_at limit ${cleanAtMost} for update skip locked)`,
)

/** Of `Idempotency-Key`, in a table of PostgreSQL's. */
export const postgresKeys: KeyStore = {
  create: [lockTableCreation, ...tableStatements.map(statement)],
  byHand: [...tableStatements, ...grantStatements],
  claimKey,
  claimRequest,
  readReply,
  beforeStoring: [backToLoginRole],
  storeReply,
  cleanUp,
  bodyToText: (body) => body.toString('base64'),
  // As the database writes bytes: `\x` and hexadecimal.
  bodyOf: (column) => Buffer.from(column.toString('latin1', 2), 'hex'),
}
