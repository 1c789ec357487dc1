import { parquetMetadata, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { parquetWriteBuffer } from 'hyparquet-writer'
import { TaskFailure } from '../../plugin.ts'
import { jsonValue } from '../json-value.ts'
import { cellsOf, columnsOf, type GivenRows, givenRows, type TableOptions, toldRows } from './table.ts'

interface Parse extends TableOptions {
  readonly bytes: Uint8Array
}

interface Stringify extends TableOptions {
  readonly rows: GivenRows
  readonly compression: 'snappy' | 'none'
}

const maxUnpackedBytes = 256n * 1024n ** 2n

/** Source: https://parquet.apache.org/docs/file-format/ */
export async function parse({ bytes, columns, maxRows, toFile }: Parse) {
  const file = new Uint8Array(bytes).buffer
  try {
    const metadata = parquetMetadata(file)
    if (metadata.num_rows > BigInt(maxRows)) throw new TaskFailure('refused', `There are more than ${maxRows} rows`)
    const chunks = metadata.row_groups.flatMap((group) => group.columns)
    const sizeBytes = chunks.reduce((sum, { meta_data }) => sum + (meta_data?.total_uncompressed_size ?? 0n), 0n)
    if (sizeBytes > maxUnpackedBytes) throw new TaskFailure('refused', 'It is larger than 256 MB once unpacked')
    const names = metadata.schema.length > 0 ? topLevel(metadata.schema) : []
    const missing = columns?.find((name) => !names.includes(name))
    if (missing !== undefined) {
      throw new TaskFailure('refused', `There is no column "${missing}"; there are ${names.slice(0, 20).join(', ')}`)
    }
    const wanted = columns === undefined ? names : [...columns]
    const rows = await parquetReadObjects({ file, compressors, columns: wanted })
    const plain = rows.map((row) => jsonValue(row))
    return toldRows({ rows: plain, columns: wanted, count: rows.length }, toFile)
  } catch (error) {
    if (error instanceof TaskFailure) throw error
    throw new TaskFailure('refused', `This is no Parquet file: ${(error as Error).message}`, error)
  }
}

/** The schema is a tree written flat: each node says how many of those after it are its children. */
function topLevel(schema: readonly { readonly name: string; readonly num_children?: number }[]): string[] {
  const names: string[] = []
  let at = 1
  const skip = () => {
    const children = schema[at++]?.num_children ?? 0
    for (let child = 0; child < children; child++) skip()
  }
  while (at < schema.length) {
    names.push(schema[at]!.name)
    skip()
  }
  return names
}

export function stringify({ rows: given, columns: wanted, compression, maxRows }: Stringify) {
  const rows = givenRows(given, maxRows)
  const columns = columnsOf(rows, wanted)
  if (columns.length === 0) throw new TaskFailure('refused', 'A Parquet file needs columns: give rows that are objects')
  const cells = cellsOf(rows, columns)
  const columnData = columns.map((name, at) =>
    columnOf(
      name,
      cells.map((row) => row[at] ?? null),
    ),
  )
  const made = parquetWriteBuffer({ columnData, codec: compression === 'snappy' ? 'SNAPPY' : 'UNCOMPRESSED' })
  return { made: new Uint8Array(made), columns: [...columns], count: rows.length }
}

/** The narrowest type that holds all values; where they are of several kinds, their JSON. */
function columnOf(name: string, values: readonly unknown[]) {
  const kinds = new Set(values.filter((value) => value !== null).map((value) => typeof value))
  const is = (kind: string) => kinds.size === 1 && kinds.has(kind as 'string')
  if (is('boolean')) return { name, data: [...values], type: 'BOOLEAN' as const }
  if (is('number')) {
    if (values.every((value) => value === null || Number.isSafeInteger(value))) {
      return {
        name,
        data: values.map((value) => (value === null ? null : BigInt(value as number))),
        type: 'INT64' as const,
      }
    }
    return { name, data: [...values], type: 'DOUBLE' as const }
  }
  if (is('string') || kinds.size === 0) return { name, data: [...values], type: 'STRING' as const }
  return { name, data: [...values], type: 'JSON' as const }
}
