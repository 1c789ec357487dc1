import { readSheet, SheetNotFoundError } from 'read-excel-file/node'
import writeWorkbook from 'write-excel-file/node'
import { TaskFailure } from '../../plugin.ts'
import { jsonValue } from '../json-value.ts'
import { cellsOf, columnsOf, type GivenRows, givenRows, type TableOptions, toldTable } from './table.ts'
import { zipEntries } from './zip.ts'

interface Parse extends TableOptions {
  readonly bytes: Uint8Array
  readonly sheet: string | number
}

interface Stringify extends TableOptions {
  readonly rows: GivenRows
  readonly sheet: string | number
}

const maxUnpackedBytes = 128 * 1024 ** 2

export async function parse({ bytes, sheet, ...options }: Parse) {
  // The library would unpack whatever is in there.
  for await (const _ of zipEntries(bytes, { maxBytes: maxUnpackedBytes, maxEntries: 10_000 }));
  try {
    const cells = await readSheet(Buffer.from(bytes), sheet)
    return toldTable(
      cells.map((row) => row.map((cell) => jsonValue(cell))),
      options,
    )
  } catch (error) {
    if (error instanceof TaskFailure) throw error
    if (error instanceof SheetNotFoundError) throw new TaskFailure('refused', `There is no sheet ${sheet}`, error)
    throw new TaskFailure('refused', `This is no Excel workbook (xlsx): ${(error as Error).message}`, error)
  }
}

export async function stringify({ rows: given, sheet, header, columns: wanted, maxRows }: Stringify) {
  const rows = givenRows(given, maxRows)
  const columns = columnsOf(rows, wanted)
  const cells = cellsOf(rows, columns).map((row) => row.map(cellOf))
  const heads = header && columns.length > 0 ? [columns.map((value) => ({ value, fontWeight: 'bold' as const }))] : []
  const name = typeof sheet === 'number' ? `Sheet${sheet}` : sheet
  try {
    const made = await writeWorkbook([...heads, ...cells], { sheet: name }).toBuffer()
    return { made: new Uint8Array(made), columns: [...columns], count: rows.length }
  } catch (error) {
    throw new TaskFailure('refused', `This cannot be an Excel workbook: ${(error as Error).message}`, error)
  }
}

/** Always with its type, so that no text becomes a formula. */
function cellOf(value: unknown) {
  if (value === null || value === undefined || value === '') return null
  if (typeof value === 'number') return { value, type: Number }
  if (typeof value === 'boolean') return { value, type: Boolean }
  return { value: typeof value === 'object' ? JSON.stringify(value) : String(value), type: String }
}
