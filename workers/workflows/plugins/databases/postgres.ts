import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { SqlOutput, sqlProperties } from './sql-properties.ts'

/** SQLSTATE classes of what can pass: connections, serialization, resources, a server that stops or starts. */
const passing = /^(08|40|53|57P0|55P03)/

export const postgres = definePlugin({
  id: 'db.postgres',
  name: 'PostgreSQL',
  category: 'Databases',
  description: 'Runs SQL on a PostgreSQL: one statement, or several in one transaction.',
  needs: 'A PostgreSQL',
  input: Type.Object(
    {
      url: Type.String({
        description: 'Where the database is',
        examples: ['postgresql://app:${DB.password}@localhost:5432/shop'],
      }),
      ...sqlProperties('select * from film where id = $1'),
    },
    { additionalProperties: false },
  ),
  output: SqlOutput,
  example: `name: ask-postgres
tasks:
  - name: ask
    type: db.postgres
    properties:
      url: postgresql://app:\${DB.password}@localhost:5432/shop
      sql: select 1 as one
`,
  async run({ input: { url, sql, parameters, statements, maxRows, timeoutMs }, signal, idempotencyKey }) {
    const { default: pg } = await import('pg')
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: 10_000,
      statement_timeout: timeoutMs,
      application_name: `busbar ${idempotencyKey}`.slice(0, 63),
      // Numbers keep their digits, dates their text.
      types: {
        getTypeParser: (oid: number) => (plain.has(oid) ? pg.types.getTypeParser(oid, 'text') : asText),
      } as never,
    })
    client.on('error', () => undefined)
    const stop = () => void client.end().catch(() => undefined)
    signal.addEventListener('abort', stop, { once: true })
    try {
      await client.connect()
      const all = statements ?? [{ sql: sql ?? '', parameters }]
      if (all.length > 1) await client.query('begin')
      const results: { rows: unknown[]; rowCount: number }[] = []
      for (const each of all) {
        const { rows = [], rowCount } = await client.query({ text: each.sql, values: [...(each.parameters ?? [])] })
        if (rows.length > maxRows) throw new TaskFailure('refused', `The statement gives more than ${maxRows} rows`)
        results.push({ rows, rowCount: rowCount ?? 0 })
      }
      if (all.length > 1) await client.query('commit')
      const last = results.at(-1) ?? { rows: [], rowCount: 0 }
      return { rows: last.rows, rowCount: last.rowCount, results }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof TaskFailure) throw error
      const { code = '', message } = error as { code?: string; message: string }
      if (/^[0-9A-Z]{5}$/.test(code)) {
        const kind = code === '57014' ? 'timeout' : passing.test(code) ? 'unavailable' : 'refused'
        throw new TaskFailure(kind, `PostgreSQL refused it (${code}): ${message}`, error)
      }
      throw error
    } finally {
      signal.removeEventListener('abort', stop)
      await client.end().catch(() => undefined)
    }
  },
})

/** Types whose JavaScript value says the same: bool, int2, int4, float4, float8, json, jsonb, text and its arrays. */
const plain = new Set([16, 21, 23, 700, 701, 114, 3802, 25, 1009, 1043, 1015])

function asText(text: string): string {
  return text
}
