import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { inOwnProcess } from '../own-process.ts'
import { SqlOutput, sqlOutputs, sqlProperties, statementsOf } from './sql-properties.ts'
import type { SqliteAnswer, SqliteJob } from './sqlite-process.ts'

const module = new URL('./sqlite-process.ts', import.meta.url)
const maxFileBytes = 256 * 1024 * 1024

export const sqlite = definePlugin({
  id: 'db.sqlite',
  name: 'SQLite',
  category: 'Databases',
  description:
    'Runs SQL on a SQLite database: a file of another task, or one that begins empty; what it becomes is a file again.',
  effect: 'pure',
  input: Type.Object(
    {
      file: Type.Optional(
        Type.String({
          description: 'The database, from another task; empty without one',
          examples: ['{{ outputs.make.uri }}'],
        }),
      ),
      ...sqlProperties('select * from film where id = ?'),
      keep: Type.Boolean({ description: 'Whether the database is given as a file', default: false, examples: [true] }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    ...SqlOutput.properties,
    uri: Type.Union([Type.String(), Type.Null()], { description: 'The database, when it is kept', examples: [null] }),
  }),
  example: `name: ask-sqlite
tasks:
  - name: ask
    type: db.sqlite
    properties:
      statements:
        - sql: create table t (id integer)
        - sql: insert into t values (1), (2)
        - sql: select sum(id) as total from t
`,
  async run({ input, scratch, services, signal }) {
    const { file, timeoutMs, keep } = input
    const [{ join }, { readFile, stat, writeFile }] = await Promise.all([
      import('node:path'),
      import('node:fs/promises'),
    ])
    const path = join(await scratch(), 'database.sqlite')
    if (file !== undefined) await writeFile(path, await services.files.get(file))
    const { maxRows, maxBytes } = input
    const job: SqliteJob = { path, statements: statementsOf(input), maxRows, maxBytes }
    const answer = await inOwnProcess<SqliteAnswer>({ module, name: 'SQLite', timeoutMs, signal }, job)
    if ('refused' in answer) throw new TaskFailure('refused', `SQLite refused it: ${answer.refused}`)
    const told = await sqlOutputs(answer.results, input.into, services.files)
    if (!keep) return { ...told, uri: null }
    if ((await stat(path)).size > maxFileBytes) throw new TaskFailure('refused', 'The database is too large to be kept')
    return { ...told, uri: (await services.files.put(await readFile(path))).uri }
  },
})
