import type { PoolConnection } from 'mysql2/promise'
import { Rejected } from '../../schemas/failure.ts'
import { type BoundStatement, bindStep } from './mysql-bind.ts'
import type { SentKey, Step } from './mysql-statement.ts'
import type { CallContext, Parameter, RawResult, RawRow } from './statement.ts'

/** Whether a statement is one of the server's, too. */
export function isSingle(steps: readonly Step[]): boolean {
  // A step of rows may become several.
  const isMany = ({ pieces }: Step) =>
    pieces.some((piece) => typeof piece === 'object' && piece.kind === 'rows' && piece.rows.many)
  return steps.length === 1 && !isMany(steps[0]!)
}

/** Runs the steps one after the other on one connection; the result is what the last of those that belong together returned. */
export async function runSteps(
  connection: PoolConnection,
  steps: readonly Step[],
  parameters: readonly Parameter[],
  context: CallContext,
): Promise<RawResult> {
  const rows: RawRow[] = []
  const work: Work = { connection, parameters, command: context.command }
  for (let index = 0; index < steps.length; index++) {
    const step = steps[index]!
    const next = steps[index + 1]
    if (next !== undefined && step.sent !== undefined) {
      for (const row of await writeAndRead(work, step, next, step.sent)) rows.push(row)
      index += 1
    } else if (next !== undefined && readsWritten(next)) {
      const written = await runStep(work, step, [])
      for (const row of inOrderOf(written, await runStep(work, next, written))) rows.push(row)
      index += 1
    } else for (const row of await runStep(work, step, [])) rows.push(row)
  }
  for (const row of rows) {
    if (row[0] === null && (row[2] === undefined || row[2] === null)) throw tooLarge()
  }
  return { rows, rowCount: rows.length }
}

interface Work {
  readonly connection: PoolConnection
  readonly parameters: readonly Parameter[]
  readonly command: string | undefined
}

function readsWritten({ pieces }: Step): boolean {
  return pieces.some((piece) => typeof piece === 'object' && piece.kind === 'written')
}

async function runStep({ parameters, ...work }: Work, step: Step, written: readonly RawRow[]): Promise<RawRow[]> {
  const found: RawRow[] = []
  for (const bound of bindStep(step, parameters, written)) {
    const some = await runBound(work, step, bound)
    if (step.returns) for (const row of some) found.push(row)
  }
  return found
}

/** Each statement of the rows, and behind it those rows: the server's numbers are those of the last statement. */
async function writeAndRead(work: Work, writing: Step, reading: Step, { whole }: SentKey): Promise<RawRow[]> {
  const rows: RawRow[] = []
  for (const bound of bindStep(writing, work.parameters, [])) {
    await runBound(work, writing, bound)
    const { sent } = bound
    const found = await runStep(work, reading, sent)
    if (found.length !== sent.length) throw notFound()
    const inOrder = whole && sent.length > 1 ? inOrderOf(sent, found) : found
    if (inOrder.length === sent.length) rows.push(...inOrder)
    // A key may come back in other words than it was sent in, 1 as 1.00.
    else for (const each of sent) rows.push(...(await runStep(work, reading, [each])))
  }
  return rows
}

/** Rows that were read by their keys, in the order of these. */
function inOrderOf(written: readonly RawRow[], found: readonly RawRow[]): RawRow[] {
  const byKey = new Map(found.map((row) => [row[1]?.toString(), row]))
  return written.map((row) => byKey.get(row[1]?.toString())).filter((row) => row !== undefined)
}

function tooLarge(): Rejected {
  return new Rejected('data/too-complex', 'A row with what hangs on it is larger than the database makes texts', {
    hint: 'Ask for fewer rows of its relations.',
  })
}

function notFound(): Rejected {
  return new Rejected(
    'data/invalid-body',
    'The new row is not found by the key it was sent with; nothing was written',
    {
      hint: 'Send the key as the database keeps it: no NULL and no 0 for a number it counts up, no more digits than it has.',
    },
  )
}

const asBytes = (field: { buffer(): Buffer | null }) => field.buffer()

function runBound(
  { connection, command }: Pick<Work, 'connection' | 'command'>,
  { writes }: Step,
  bound: BoundStatement,
): Promise<RawRow[]> {
  return writes && command !== undefined ? executeOnce(connection, bound, command) : execute(connection, bound)
}

async function execute(
  connection: PoolConnection,
  { text, values }: Pick<BoundStatement, 'text' | 'values'>,
): Promise<RawRow[]> {
  const [rows] = (await connection.execute({ sql: text, rowsAsArray: true, typeCast: asBytes }, [...values])) as [
    unknown,
    unknown,
  ]
  return Array.isArray(rows) ? (rows as RawRow[]) : []
}

/** The command is in the text, so that the text never comes again. */
async function executeOnce(
  connection: PoolConnection,
  { text, values }: BoundStatement,
  command: string,
): Promise<RawRow[]> {
  const [verb = ''] = text.split(' ', 1)
  const comment = `/*busbar.command:${Buffer.from(command).toString('base64url')}*/`
  const sql = `${verb} ${comment}${text.slice(verb.length)}`
  try {
    return await execute(connection, { text: sql, values })
  } finally {
    connection.unprepare({ sql, rowsAsArray: true, typeCast: asBytes } as never)
  }
}
