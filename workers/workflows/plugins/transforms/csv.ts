import { type Static, Type } from 'typebox'
import { definePlugin, type TaskRun } from '../../plugin.ts'
import { bytesOf, contentOutputs, contentProperties, decoded, givenBack, needed, textOf } from '../content.ts'
import { Items, listOf } from '../list-properties.ts'
import { threadModule } from '../thread-module.ts'
import type { GivenRows } from './table.ts'

const text = threadModule<typeof import('./csv-thread.ts')>(new URL('./csv-thread.ts', import.meta.url))
const xlsx = threadModule<typeof import('./xlsx-thread.ts')>(new URL('./xlsx-thread.ts', import.meta.url))
const parquet = threadModule<typeof import('./parquet-thread.ts')>(new URL('./parquet-thread.ts', import.meta.url))

const Input = Type.Object(
  {
    operation: Type.Enum(['parse', 'stringify'], {
      description: '`parse` a table into rows, or `stringify` rows into a table',
      default: 'parse',
      examples: ['stringify'],
    }),
    format: Type.Enum(['csv', 'xlsx', 'parquet'], {
      description: 'How the table is written; `xlsx` and `parquet` are read from a file and become one',
      default: 'csv',
      examples: ['xlsx'],
    }),
    ...contentProperties('The table to parse', 'id,name\n1,Ann\n'),
    rows: Type.Optional(
      Items(
        [{ id: 1, name: 'Ann' }],
        'The rows to stringify: a list of objects or of lists; or give a `file` of them, one as JSON a line',
      ),
    ),
    header: Type.Boolean({
      description: 'Whether the first row names the columns; without it and `columns`, rows are lists',
      default: true,
      examples: [false],
    }),
    columns: Type.Optional(
      Type.Array(Type.String(), {
        description: 'Which columns, in this order; names those of a table without a header. All of them by default',
        maxItems: 10_000,
        examples: [['id', 'name']],
      }),
    ),
    types: Type.Enum(['text', 'auto'], {
      description: 'Of a CSV: every cell a `text`, or `auto`: numbers, true, false, and null for an empty one',
      default: 'text',
      examples: ['auto'],
    }),
    delimiter: Type.String({
      description: 'Of a CSV: what is between cells; `auto` finds out which of , ; | and tab it is',
      default: ',',
      minLength: 1,
      maxLength: 8,
      examples: [';'],
    }),
    quote: Type.String({ description: 'Of a CSV: around cells', default: '"', maxLength: 1, examples: ["'"] }),
    escape: Type.String({
      description: 'Of a CSV: before a quote within quotes',
      default: '"',
      maxLength: 1,
      examples: ['\\'],
    }),
    comment: Type.String({
      description: 'Of a CSV: lines that begin with it are left out; empty: none are',
      default: '',
      maxLength: 8,
      examples: ['#'],
    }),
    trim: Type.Boolean({ description: 'Of a CSV: whether blanks around cells go', default: false, examples: [true] }),
    encoding: Type.Enum(['utf-8', 'utf-16le', 'windows-1252'], {
      description: 'Of a CSV that is read from a file',
      default: 'utf-8',
      examples: ['windows-1252'],
    }),
    lineBreak: Type.Enum(['\n', '\r\n'], {
      description: 'Of a CSV that is written',
      default: '\n',
      examples: ['\r\n'],
    }),
    quoteAll: Type.Boolean({
      description: 'Of a CSV that is written: whether cells are quoted that need not be',
      default: false,
      examples: [true],
    }),
    byteOrderMark: Type.Boolean({
      description: 'Of a CSV that is written: whether it begins with a mark, so that Excel reads it as UTF-8',
      default: false,
      examples: [true],
    }),
    escapeFormulas: Type.Boolean({
      description: "Of a CSV that is written: whether what a spreadsheet would calculate gets a `'` before it",
      default: false,
      examples: [true],
    }),
    sheet: Type.Union([Type.String({ minLength: 1, maxLength: 31 }), Type.Integer({ minimum: 1 })], {
      description: 'Of an Excel file: name of the sheet, or its number',
      default: 1,
      examples: ['Sales'],
    }),
    compression: Type.Enum(['snappy', 'none'], {
      description: 'Of a Parquet file that is written',
      default: 'snappy',
      examples: ['none'],
    }),
    maxRows: Type.Integer({
      description: 'More rows than this fail the task',
      default: 100_000,
      minimum: 0,
      maximum: 1_000_000,
      examples: [1_000],
    }),
    toFile: Type.Boolean({
      description: 'Whether what comes out is a file: the table, or the rows that were parsed, one as JSON a line',
      default: false,
      examples: [true],
    }),
  },
  { additionalProperties: false },
)

export type TableInput = Static<typeof Input>

export const csv = definePlugin({
  id: 'transform.csv',
  name: 'CSV, Excel and Parquet',
  category: 'Transforms',
  description: 'Reads tables into rows and writes rows as tables: CSV, Excel workbooks (xlsx) and Parquet files.',
  effect: 'pure',
  input: Input,
  output: Type.Object({
    rows: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'What was parsed, unless it is a file', examples: [[{ id: '1' }]] }),
    ),
    columns: Type.Array(Type.String(), { description: 'The names of the columns', examples: [['id']] }),
    count: Type.Integer({ description: 'How many rows', examples: [1] }),
    ...contentOutputs,
  }),
  example: `name: read-csv
tasks:
  - name: read
    type: transform.csv
    properties:
      text: |
        id,name
        1,Ann
        2,Bob
      types: auto
  - name: write
    type: transform.csv
    properties:
      operation: stringify
      rows: '{{ outputs.read.rows }}'
      delimiter: ;
`,
  async run(task) {
    const { operation, toFile, format } = task.input
    if (operation === 'parse') {
      const { lines, ...table } = { lines: undefined, ...(await parsed(task)) }
      return { ...table, ...(lines !== undefined && (await givenBack(task, lines, true))) }
    }
    const { made, ...table } = await written(task, await rowsIn(task))
    return { ...table, ...(await givenBack(task, made, toFile || format !== 'csv')) }
  },
})

async function parsed(task: TaskRun<TableInput>) {
  const { format, encoding, file, ...options } = task.input
  const bytes = await bytesOf(task, task.input)
  if (format === 'xlsx') return await xlsx(task, 'parse', { ...options, bytes })
  if (format === 'parquet') return await parquet(task, 'parse', { ...options, bytes })
  const place = file === undefined ? 'properties.text' : 'properties.file'
  const content = decoded(bytes, place, file === undefined ? 'utf-8' : encoding)
  return await text(task, 'parse', { ...options, text: content })
}

async function rowsIn(task: TaskRun<TableInput>): Promise<GivenRows> {
  const { rows, file, text } = task.input
  if (rows !== undefined) return [...listOf(rows, 'properties.rows')]
  if (file === undefined && text === undefined) return needed<GivenRows>(undefined, 'rows', 'stringify')
  return await textOf(task, task.input)
}

async function written(task: TaskRun<TableInput>, rows: GivenRows) {
  const { format, ...options } = task.input
  if (format === 'xlsx') return await xlsx(task, 'stringify', { ...options, rows })
  if (format === 'parquet') return await parquet(task, 'stringify', { ...options, rows })
  return await text(task, 'stringify', { ...options, rows })
}
