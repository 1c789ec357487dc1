import { type Client, escapeIdentifier, escapeLiteral } from 'pg'
import type { CaptureStatus } from '../../schemas/data/capture-status.ts'
import type { CapturedSchemas } from './change-emitter.ts'
import type { Rights } from './postgres-findings.ts'
import { CaptureRefused } from './refusal.ts'

export interface PublicationOptions {
  readonly publicationName: string
  readonly schemas: CapturedSchemas
  /**
   * Called before a missing publication is made. What was written while there was none cannot be read: older servers refuse to go
   * on there, newer ones leave it out without a word.
   */
  readonly beforeCreating: () => Promise<void>
}

export interface Publications {
  /** What the reader subscribes to. */
  readonly names: readonly string[]
  readonly unpublished: CaptureStatus['unpublished']
}

interface TableRow {
  readonly schema: string
  readonly table: string
  /** Has what UPDATE and DELETE of a published table need, in each partition: a replica identity. */
  readonly identified: boolean
  /** REPLICA IDENTITY FULL does not go together with virtual generated columns. */
  readonly virtual: boolean
  readonly owned: boolean
  readonly inRows: boolean
  readonly inInserts: boolean
}

/** Marks the publications that are ours to change. */
const mark = 'made by busbar'

/**
 * PostgreSQL looks at the partition that holds the row, and takes a primary key only when it is checked at once. Source:
 * RelationGetIndexList, CheckCmdReplicaIdentity.
 */
const tablesSql = `
  select n.nspname as schema, c.relname as table, pg_has_role(current_user, c.relowner, 'usage') as owned,
    not exists (
      select from pg_class l
      where (l.oid = c.oid and c.relkind = 'r'
          or c.relkind = 'p' and l.relkind = 'r' and l.oid in (select relid from pg_partition_tree(c.oid)))
        and not (l.relreplident = 'f' and not (${isVirtual('l')}) or exists (
          select from pg_index i where i.indrelid = l.oid and i.indisvalid and i.indimmediate
            and (l.relreplident = 'd' and i.indisprimary or l.relreplident = 'i' and i.indisreplident)))
    ) as identified,
    c.relreplident = 'f' and ${isVirtual('c')} as virtual,
    exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
      where r.prrelid = c.oid and p.pubname = $2) as "inRows",
    exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
      where r.prrelid = c.oid and p.pubname = $3) as "inInserts"
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any($1) and c.relkind in ('r', 'p') and c.relpersistence = 'p' and not c.relispartition
  order by 1, 2`

function isVirtual(table: string): string {
  return `exists (select from pg_attribute a where a.attrelid = ${table}.oid and a.attgenerated = 'v')`
}

const publicationSql = `
  select p.pubname as name, obj_description(p.oid, 'pg_publication') = '${mark}' as ours
  from pg_publication p where p.pubname = any($1)`

/**
 * Sees to it that the tables of the schemas are published. Two publications, because a table without a key (replica identity)
 * refuses UPDATE and DELETE to everybody as soon as its updates are published: `<name>` holds the tables with one and
 * all their changes, `<name>_inserts` holds every table and only INSERT and TRUNCATE. A publication that somebody else made
 * under `<name>` is used as it is, alone.
 *
 * @throws {CaptureRefused} when there is none and the user may not create one.
 */
export async function ensurePublications(
  client: Client,
  rights: Rights,
  { publicationName, schemas: captured, beforeCreating }: PublicationOptions,
): Promise<Publications> {
  const schemas = captured === 'ALL' ? await allSchemas(client) : captured
  const insertsName = `${publicationName}_inserts`.slice(-63)
  const found = await client.query<{ readonly name: string; readonly ours: boolean | null }>(publicationSql, [
    [publicationName, insertsName],
  ])
  const given = found.rows.find(({ name }) => name === publicationName)
  if (given && given.ours !== true) {
    return { names: [publicationName], unpublished: await unpublishedIn(client, publicationName, schemas) }
  }
  const exists = (wanted: string) => found.rows.some(({ name }) => name === wanted)
  if (!exists(publicationName) || !exists(insertsName)) await beforeCreating()
  if (!exists(publicationName))
    await createPublication(client, rights, publicationName, 'insert, update, delete, truncate')
  if (!exists(insertsName)) await createInserts(client, rights, insertsName, schemas)
  const { rows } = await client.query<TableRow>(tablesSql, [schemas, publicationName, insertsName])
  const whole = await coversAll(client, insertsName, schemas)
  const unpublished: CaptureStatus['unpublished'] = []
  for (const row of rows) await place(client, row, { publicationName, insertsName, whole, unpublished, rights })
  return { names: [publicationName, insertsName], unpublished }
}

async function allSchemas(client: Client): Promise<readonly string[]> {
  const { rows } = await client.query<{ readonly name: string }>(
    `select nspname as name from pg_namespace
     where nspname !~ '^pg_' and nspname not in ('information_schema', 'busbar') order by 1`,
  )
  return rows.map(({ name }) => name)
}

interface Placing {
  readonly publicationName: string
  readonly insertsName: string
  /** `<name>_inserts` holds every table without naming it. */
  readonly whole: boolean
  readonly unpublished: CaptureStatus['unpublished']
  readonly rights: Rights
}

/** Puts one table into the publications it belongs to and takes it out of the others. */
async function place(client: Client, row: TableRow, placing: Placing): Promise<void> {
  const { publicationName, insertsName, whole, unpublished, rights } = placing
  const table = `${escapeIdentifier(row.schema)}.${escapeIdentifier(row.table)}`
  const alter = (publication: string, verb: string) =>
    `ALTER PUBLICATION ${escapeIdentifier(publication)} ${verb} TABLE ${table}`
  const mayChange = rights.superuser || row.owned
  const wanted: string[] = []
  if (row.inRows !== row.identified) wanted.push(alter(publicationName, row.identified ? 'ADD' : 'DROP'))
  if (!whole && row.inInserts === row.identified) wanted.push(alter(insertsName, row.identified ? 'DROP' : 'ADD'))
  // First into the one, then out of the other: no change may come in between.
  wanted.sort((one, other) => Number(isAdding(other)) - Number(isAdding(one)))
  const failed = mayChange ? await tryAll(client, wanted) : wanted.map((statement) => ({ statement, reason: notOwned }))
  const missing = failed.find(({ statement }) => isAdding(statement))
  const { schema, table: name } = row
  if (missing !== undefined && (row.identified || !whole)) {
    const reason = missing.reason === notOwned ? `the user ${rights.user} does not own the table` : missing.reason
    const statement = `${missing.statement}; -- as a superuser`
    unpublished.push({ schema, table: name, inserts: whole, reason, statement })
  } else if (!row.identified) {
    unpublished.push({ schema, table: name, inserts: true, ...unidentified(row, table) })
  }
}

const notOwned = 'not owned'

function isAdding(statement: string): boolean {
  return statement.includes(' ADD TABLE ')
}

function unidentified({ virtual }: TableRow, table: string): { readonly reason: string; readonly statement: string } {
  if (virtual) {
    return {
      reason: 'with virtual generated columns and full replica identity only INSERT and TRUNCATE can be published',
      statement: `ALTER TABLE ${table} REPLICA IDENTITY DEFAULT; -- it needs a primary key`,
    }
  }
  return {
    reason: 'without a primary key only INSERT and TRUNCATE can be published',
    statement: `ALTER TABLE ${table} REPLICA IDENTITY FULL; -- or give it a primary key; each partition, when it has any`,
  }
}

/** A table can be dropped or locked at any moment, and the next round sees what is; the connection must not wait behind a lock. */
const passing: ReadonlySet<string | undefined> = new Set([
  ...['42P01', '3F000', '42710', '42704'],
  ...['55P03', '57014', '40P01'],
])

interface FailedStatement {
  readonly statement: string
  readonly reason: string
}

/** Answers the statements that the database refused for good. */
async function tryAll(client: Client, statements: readonly string[]): Promise<FailedStatement[]> {
  const failed: FailedStatement[] = []
  if (statements.length === 0) return failed
  await client.query(`set lock_timeout = '200ms'`)
  for (const statement of statements) {
    await client.query(statement).catch((error: { readonly code?: string; readonly message: string }) => {
      if (!error.code) throw error
      if (!passing.has(error.code)) failed.push({ statement, reason: error.message })
    })
  }
  await client.query('set lock_timeout = 0')
  return failed
}

async function createPublication(
  client: Client,
  rights: Rights,
  name: string,
  publish: string,
  tables = '',
): Promise<void> {
  const options = [`publish = ${escapeLiteral(publish)}`, 'publish_via_partition_root = true']
  if (rights.version >= 180_000) options.push('publish_generated_columns = stored')
  const sql = `CREATE PUBLICATION ${escapeIdentifier(name)}${tables} WITH (${options.join(', ')})`
  try {
    // One transaction: without the mark it would be taken for somebody else's, and stay empty.
    await client.query(`${sql}; COMMENT ON PUBLICATION ${escapeIdentifier(name)} IS '${mark}'`)
  } catch (error) {
    const { code, message } = error as { readonly code?: string; readonly message: string }
    // Another capture of the same source was faster.
    if (code === '42710' || code === '23505') return
    if (code !== '42501') throw error
    const grant = `GRANT CREATE ON DATABASE ${escapeIdentifier(rights.database)} TO ${escapeIdentifier(rights.user)}`
    throw new CaptureRefused(`The publication ${name} does not exist and cannot be created: ${message}`, [
      `${grant}; -- as a superuser`,
    ])
  }
}

async function createInserts(client: Client, rights: Rights, name: string, schemas: readonly string[]): Promise<void> {
  const existing = await client.query<{ nspname: string }>('select nspname from pg_namespace where nspname = any($1)', [
    schemas,
  ])
  const list = existing.rows.map(({ nspname }) => escapeIdentifier(nspname)).join(', ')
  const bySchema = rights.version >= 150_000 && list !== '' ? ` FOR TABLES IN SCHEMA ${list}` : ''
  const tables = rights.superuser ? bySchema : ''
  await createPublication(client, rights, name, 'insert, truncate', tables)
}

/** Whether the publication names all the schemas; those that came since are added. */
async function coversAll(client: Client, name: string, schemas: readonly string[]): Promise<boolean> {
  const version = await client.query<{ readonly has: boolean }>(
    `select to_regclass('pg_catalog.pg_publication_namespace') is not null as has`,
  )
  if (version.rows[0]?.has !== true) return false
  const { rows } = await client.query<{ readonly schema: string; readonly named: boolean; readonly any: boolean }>(
    `select n.nspname as schema,
       exists (select from pg_publication_namespace x join pg_publication p on p.oid = x.pnpubid
         where p.pubname = $1 and x.pnnspid = n.oid) as named,
       exists (select from pg_publication_namespace x join pg_publication p on p.oid = x.pnpubid where p.pubname = $1) as any
     from pg_namespace n where n.nspname = any($2)`,
    [name, schemas],
  )
  if (rows.length === 0 || !rows[0]!.any) return false
  const missing = rows.filter(({ named }) => !named)
  const failed = await tryAll(
    client,
    missing.map(
      ({ schema }) => `ALTER PUBLICATION ${escapeIdentifier(name)} ADD TABLES IN SCHEMA ${escapeIdentifier(schema)}`,
    ),
  )
  return failed.length === 0
}

/** Tables that a publication of somebody else leaves out. */
async function unpublishedIn(
  client: Client,
  name: string,
  schemas: readonly string[],
): Promise<CaptureStatus['unpublished']> {
  const { rows } = await client.query<{ readonly schema: string; readonly table: string }>(
    `select n.nspname as schema, c.relname as table
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any($1) and c.relkind in ('r', 'p') and c.relpersistence = 'p' and not c.relispartition
       and not exists (select from pg_publication_tables t
         where t.pubname = $2 and t.schemaname = n.nspname and t.tablename = c.relname)
       and not exists (select from pg_partition_tree(c.oid) leaf join pg_class l on l.oid = leaf.relid
         join pg_namespace ln on ln.oid = l.relnamespace join pg_publication_tables t
           on t.pubname = $2 and t.schemaname = ln.nspname and t.tablename = l.relname)
     order by 1, 2`,
    [schemas, name],
  )
  return rows.map(({ schema, table }) => {
    const reason = `the publication ${name} leaves it out`
    const sqlName = `${escapeIdentifier(schema)}.${escapeIdentifier(table)}`
    return {
      schema,
      table,
      inserts: false,
      reason,
      statement: `ALTER PUBLICATION ${escapeIdentifier(name)} ADD TABLE ${sqlName};`,
    }
  })
}
