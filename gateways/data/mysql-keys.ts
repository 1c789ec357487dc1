import { type MysqlStatement, mysqlStatement, type StepText, slotMark } from './mysql-statement.ts'
import type { KeyStore } from './statement.ts'

const cleanAtMost = 500

/** The key of the table is a digest: MySQL's keys are short. */
const tableStatements = [
  'create database if not exists busbar',
  `create table if not exists busbar.idempotency (
  id char(64) character set ascii collate ascii_bin not null primary key,
  fingerprint char(64) character set ascii not null,
  status int,
  headers text character set utf8mb4,
  body longblob,
  created_at timestamp not null default current_timestamp,
  key idempotency_created_at (created_at)
) engine = innodb`,
]
const grantStatements = ['grant select, insert, update, delete on busbar.idempotency to <the account of this service>']

const id = `sha2(concat(${slotMark(1, 'text')}, char(10), ${slotMark(2, 'text')}), 256)`
const fingerprint = slotMark(3, 'text')
const expired = 'created_at < now() - interval 24 hour'
const insert = `insert into busbar.idempotency (id, fingerprint) values (${id}, ${fingerprint}) on duplicate key update`
// In this order: each assignment sees those in front of it.
const anew = (column: string, value: string) => `${column} = if(${expired}, ${value}, ${column})`
const emptied = ['fingerprint', 'status', 'headers', 'body'].map((column) =>
  anew(column, column === 'fingerprint' ? fingerprint : 'null'),
)

const one = (text: string, step: Omit<StepText, 'text'>): MysqlStatement => mysqlStatement([{ text, ...step }])
const writing = { writes: true, returns: false }
const reading = { writes: false, returns: true }

/**
 * Of `Idempotency-Key`, in a table of MySQL's. A row without a status is that of the transaction under way: no other one commits such a
 * row, and the insertion waits for the others.
 */
export const mysqlKeys: KeyStore = {
  create: tableStatements.map((text) => one(text, writing)),
  byHand: [...tableStatements, ...grantStatements],
  claimKey: mysqlStatement([
    { text: `${insert} ${[...emptied, anew('created_at', 'now()')].join(', ')}`, ...writing },
    {
      text: `select 1 from busbar.idempotency where id = ${id} and fingerprint = ${fingerprint} and status is null for update`,
      ...reading,
    },
  ]),
  claimRequest: mysqlStatement([
    { text: `${insert} ${[anew('fingerprint', fingerprint), anew('created_at', 'now()')].join(', ')}`, ...writing },
    {
      text: `select 1 from busbar.idempotency where id = ${id} and fingerprint = ${fingerprint} for update`,
      ...reading,
    },
  ]),
  readReply: one(`select fingerprint, concat(status), headers, body from busbar.idempotency where id = ${id}`, reading),
  beforeStoring: [],
  storeReply: one(
    `update busbar.idempotency set status = ${slotMark(3, 'text')}, headers = ${slotMark(4, 'text')}, body = ${slotMark(5, 'bytes')} where id = ${id}`,
    writing,
  ),
  cleanUp: one(`delete from busbar.idempotency where ${expired} order by created_at limit ${cleanAtMost}`, writing),
  bodyToText: (body) => `\\x${body.toString('hex')}`,
  bodyOf: (column) => column,
}
