import t from 'tap'
import { differential, differentialOptions } from '../graphql/differential.ts'
import { labels, makeNet } from '../graphql/net.ts'
import { seed } from '../rest/seed.ts'
import { testMysqlGateway } from './gateway.ts'

t.setTimeout(120_000)

// Texts as PostgreSQL's "C" sorts them, and of a length that a key may have.
const { model, sql } = makeNet(seed, {
  sqlTypes: {
    int: 'int',
    bigint: 'bigint',
    numeric: 'decimal(8, 2)',
    text: 'varchar(50) character set utf8mb4 collate utf8mb4_bin',
    boolean: 'boolean',
    date: 'date',
    enum: `enum(${labels.map((label) => `'${label}'`).join(', ')})`,
  },
  literal: (value) =>
    typeof value === 'boolean'
      ? String(value)
      : `convert(x'${Buffer.from(String(value)).toString('hex')}' using utf8mb4)`,
})

const { ask } = await testMysqlGateway(t, { schemaSql: sql, ...differentialOptions(model) })
await differential(t, model, ask, 7_000)
