import pg from 'pg'
import t from 'tap'
import { seed } from '../rest/seed.ts'
import { differential, differentialOptions } from './differential.ts'
import { testGateway } from './gateway.ts'
import { labels, makeNet } from './net.ts'

t.setTimeout(120_000)

const { model, sql } = makeNet(seed, {
  sqlTypes: {
    int: 'integer',
    bigint: 'bigint',
    numeric: 'numeric(8, 2)',
    text: 'text collate "C"',
    boolean: 'boolean',
    date: 'date',
    enum: 'level',
    words: 'text[]',
  },
  literal: (value) =>
    pg.escapeLiteral(
      Array.isArray(value)
        ? `{${value.map((member) => (member === null ? 'NULL' : JSON.stringify(member))).join(',')}}`
        : String(value),
    ),
})

const type = `create type level as enum (${labels.map((label) => `'${label}'`).join(', ')})`
const { ask } = await testGateway(t, { schemaSql: `${type};\n${sql}`, ...differentialOptions(model) })
await differential(t, model, ask, 12_000)
