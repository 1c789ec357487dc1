import { createHash } from 'node:crypto'
import { CareFailure, refuse } from '../care-failure.ts'
import { stampedId } from '../stamped-id.ts'

export interface MigrationRequest {
  readonly projectId: string
  /** Dotted numbers and words (`1`, `2024.11.20`, `v3_1`). */
  readonly version: string
  readonly name: string
  readonly description?: string
  readonly sql: string
  /** Default 60,000; at most 3,600,000: the longest the whole migration may take. */
  readonly timeoutMs?: number
}

export interface MigrationRecord {
  /** `mig-YYYYMMDD-HHMMSS`, `-2` and so on for more of one second. */
  readonly id: string
  readonly projectId: string
  readonly version: string
  readonly name: string
  readonly description: string | null
  readonly sql: string
  readonly status: 'APPLIED' | 'FAILED'
  /** RFC 3339. */
  readonly appliedAt: string
  readonly executionTimeMs: number
  readonly errorMessage: string | null
  /** SQLSTATE of the failure. */
  readonly errorCode: string | null
  /** First 8 hex digits of the SQL's MD5. */
  readonly checksum: string
  readonly sha256: string
  /** What the statements reported, one line each. */
  readonly output: string
}

/** As they lie in the instance's own database, where the record is a row. */
export const migrationColumns = [
  'id', 'projectId', 'version', 'name', 'description', 'sql', 'status', 'appliedAt', 'executionTimeMs', 'errorMessage',
  'errorCode', 'checksum', 'sha256', 'output',
] as const satisfies readonly (keyof MigrationRecord)[] // biome-ignore format: a list of names

/** The instance's own user. */
export interface MigrationUser {
  readonly user: string
  readonly password: string
}

/** What is known of a migration before it runs. */
export type MigrationBegun = Omit<
  MigrationRecord,
  'status' | 'appliedAt' | 'executionTimeMs' | 'errorMessage' | 'errorCode' | 'output'
>

const maxSqlBytes = 1024 * 1024
const maxOutput = 64 * 1024
const defaultTimeoutMs = 60_000
const maxTimeoutMs = 3_600_000

/** @throws {CareFailure} `refused` (400) naming the field. */
export function readMigration(request: MigrationRequest): MigrationRequest & { readonly timeoutMs: number } {
  const { version, name, sql, timeoutMs = defaultTimeoutMs } = request
  if (!/^[A-Za-z0-9][\w.-]{0,63}$/.test(version)) {
    refuse('version must be 1 to 64 letters, digits, dots, dashes or underscores.', { field: 'version' })
  }
  if (name.trim() === '' || name.length > 200) refuse('name must have 1 to 200 characters.', { field: 'name' })
  if (sql.trim() === '') refuse('sql is empty.', { field: 'sql' })
  if (Buffer.byteLength(sql) > maxSqlBytes) refuse('sql is longer than 1 MiB.', { status: 413, field: 'sql' })
  if (!Number.isInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > maxTimeoutMs) {
    refuse(`timeoutMs must be 1 to ${maxTimeoutMs}.`, { field: 'timeoutMs' })
  }
  return { ...request, timeoutMs }
}

const listedRecords = 1_000
const listedTextBytes = 3 * 1024 * 1024

/** A record in a list: of those that are long ago the texts are left out, once the list has much of them. */
export type ListedMigration = Omit<MigrationRecord, 'sql' | 'output'> & {
  readonly sql: string | null
  readonly output: string | null
}

/** The newest of the records, oldest first, so few and so short that a message can carry them. */
export function listedMigrations(records: readonly MigrationRecord[]): readonly ListedMigration[] {
  let bytes = 0
  const newestFirst = records.slice(-listedRecords).reverse()
  const listed = newestFirst.map((record) => {
    bytes += Buffer.byteLength(JSON.stringify([record.sql, record.output]))
    return bytes <= listedTextBytes ? record : { ...record, sql: null, output: null }
  })
  return listed.reverse()
}

export function checksumsOf(sql: string): { readonly checksum: string; readonly sha256: string } {
  return {
    checksum: createHash('md5').update(sql).digest('hex').slice(0, 8),
    sha256: createHash('sha256').update(sql).digest('hex'),
  }
}

/** `mig-YYYYMMDD-HHMMSS`, with `-2` and so on when that second has one. */
export function migrationId(at: Date, taken: (id: string) => boolean): string {
  return stampedId('mig', at, taken)
}

/** The record of the first time where it was applied before; else what it begins with. @throws {CareFailure} `refused` (409) */
export function beginMigration(
  records: readonly MigrationRecord[],
  { projectId, version, name, sql, description }: MigrationRequest,
): { readonly applied: MigrationRecord } | { readonly begun: MigrationBegun } {
  const sums = checksumsOf(sql)
  const applied = alreadyApplied(records, version, sums.sha256)
  if (applied !== undefined) return { applied }
  const id = migrationId(new Date(), (candidate) => records.some((record) => record.id === candidate))
  return { begun: { id, projectId, version, name, description: description ?? null, sql, ...sums } }
}

/** Makes the records of a migration that begins now. `lines`: what its statements have reported so far. */
export function recorder(begun: MigrationBegun, lines: readonly string[]) {
  const startedAt = performance.now()
  return (error: { readonly message: string; readonly code: string | null } | null): MigrationRecord => ({
    ...begun,
    status: error === null ? 'APPLIED' : 'FAILED',
    appliedAt: new Date().toISOString(),
    executionTimeMs: Math.round(performance.now() - startedAt),
    errorMessage: error?.message ?? null,
    errorCode: error?.code ?? null,
    output: lines.join('\n').slice(0, maxOutput),
  })
}

/**
 * An applied version is applied again only as what it was: the same SQL is answered with the record of the first time.
 *
 * @throws {CareFailure} `refused` (409) for other SQL under an applied version.
 */
export function alreadyApplied(
  records: readonly MigrationRecord[],
  version: string,
  sha256: string,
): MigrationRecord | undefined {
  const applied = records.find((record) => record.version === version && record.status === 'APPLIED')
  if (applied === undefined || applied.sha256 === sha256) return applied
  throw new CareFailure('refused', `Version ${version} was applied with other SQL (checksum ${applied.checksum}).`, {
    status: 409,
    field: 'version',
    details: { appliedChecksum: applied.checksum },
  })
}
