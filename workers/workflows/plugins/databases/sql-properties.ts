import { type Static, type TProperties, Type } from 'typebox'
import { TaskFailure, type TaskFiles } from '../../plugin.ts'

/** What every SQL plugin is asked: one statement, one with many sets of parameters, or several as one transaction. */
export function sqlProperties(example: string) {
  return {
    sql: Type.Optional(Type.String({ description: 'The statement', examples: [example] })),
    parameters: Type.Array(Type.Unknown(), {
      description: 'Values of its parameters: never put values into the text',
      default: [],
      examples: [[1]],
    }),
    batch: Type.Optional(
      Type.Array(Type.Array(Type.Unknown()), {
        description: 'In place of `parameters`: `sql` once with each of these lists, all or none',
        maxItems: 10_000,
        examples: [[[1], [2]]],
      }),
    ),
    statements: Type.Optional(
      Type.Array(
        Type.Object({
          sql: Type.String({ description: 'A statement', examples: [example] }),
          parameters: Type.Optional(
            Type.Array(Type.Unknown(), { description: 'Values of its parameters', examples: [[1]] }),
          ),
        }),
        {
          description: 'In place of `sql`: several statements, all or none',
          maxItems: 100,
          examples: [[{ sql: example, parameters: [1] }]],
        },
      ),
    ),
    into: Type.Union([Type.Literal('outputs'), Type.Literal('file')], {
      description: 'Where the rows go: into the outputs, or into a file with one JSON object a line',
      default: 'outputs',
      examples: ['file'],
    }),
    maxRows: Type.Integer({
      description: 'More rows than this fail the task',
      default: 10_000,
      minimum: 0,
      maximum: 1_000_000,
      examples: [100],
    }),
    maxBytes: Type.Integer({
      description: 'More bytes of rows than this, as JSON, fail the task',
      default: 16_777_216,
      minimum: 1,
      maximum: 67_108_864,
      examples: [1_048_576],
    }),
    timeoutMs: Type.Integer({
      description: 'Longest run of a statement, milliseconds',
      default: 60_000,
      minimum: 1,
      examples: [5_000],
    }),
  } satisfies TProperties
}

export const SqlOutput = Type.Object({
  rows: Type.Array(Type.Unknown(), {
    description: 'Rows of the last statement; none when they go into a file',
    examples: [[{ id: 1 }]],
  }),
  rowCount: Type.Integer({ description: 'How many rows it gave or changed', examples: [1] }),
  results: Type.Array(Type.Unknown(), {
    description: 'The same for each statement',
    examples: [[{ rows: [], rowCount: 1 }]],
  }),
  rowsUri: Type.Union([Type.String(), Type.Null()], {
    description: 'The rows of the last statement, when they go into a file',
    examples: ['busbar:///files/2c26b46b68ffc68f'],
  }),
})

export interface SqlStatement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

interface SqlInput {
  readonly sql?: string
  readonly parameters: readonly unknown[]
  readonly batch?: readonly (readonly unknown[])[]
  readonly statements?: readonly { readonly sql: string; readonly parameters?: readonly unknown[] }[]
}

/** What is to be run, in order. @throws {TaskFailure} `refused` when there is nothing */
export function statementsOf({ sql, parameters, batch, statements }: SqlInput): readonly SqlStatement[] {
  if (statements !== undefined) return statements.map((each) => ({ parameters: [], ...each }))
  if (sql === undefined || sql.trim() === '')
    throw new TaskFailure('refused', 'properties.sql is needed, or properties.statements')
  return (batch ?? [parameters]).map((each) => ({ sql, parameters: each }))
}

interface SqlResult {
  readonly rows: readonly unknown[]
  readonly rowCount: number
}

/** The outputs of an SQL plugin. */
export async function sqlOutputs(
  results: readonly SqlResult[],
  into: 'outputs' | 'file',
  files: TaskFiles,
): Promise<Static<typeof SqlOutput>> {
  const { rows, rowCount } = results.at(-1) ?? { rows: [], rowCount: 0 }
  if (into === 'outputs') return { rows: [...rows], rowCount, results: [...results], rowsUri: null }
  const lines = rows.map((row) => `${JSON.stringify(row)}\n`).join('')
  const { uri } = await files.put(Buffer.from(lines, 'utf8'))
  return { rows: [], rowCount, results: results.map((each) => ({ ...each, rows: [] })), rowsUri: uri }
}
