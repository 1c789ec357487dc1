import { type TProperties, Type } from 'typebox'

/** What every SQL plugin is asked: one statement, or several as one transaction. */
export function sqlProperties(example: string) {
  return {
    sql: Type.Optional(Type.String({ description: 'The statement', examples: [example] })),
    parameters: Type.Array(Type.Unknown(), {
      description: 'Values of its parameters: never put values into the text',
      default: [],
      examples: [[1]],
    }),
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
    maxRows: Type.Integer({
      description: 'More rows than this fail the task',
      default: 10_000,
      minimum: 0,
      maximum: 1_000_000,
      examples: [100],
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
  rows: Type.Array(Type.Unknown(), { description: 'Rows of the last statement', examples: [[{ id: 1 }]] }),
  rowCount: Type.Integer({ description: 'How many rows it gave or changed', examples: [1] }),
  results: Type.Array(Type.Unknown(), {
    description: 'The same for each statement',
    examples: [[{ rows: [], rowCount: 1 }]],
  }),
})
