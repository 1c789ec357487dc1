import { TaskFailure } from '../../plugin.ts'

/** What a task may still take in, over all its statements. */
export class RowBudget {
  readonly #limits: { readonly maxRows: number; readonly maxBytes: number }
  #rows = 0
  #bytes = 0

  constructor(limits: { readonly maxRows: number; readonly maxBytes: number }) {
    this.#limits = limits
  }

  /** @throws {TaskFailure} `refused` for the row that is too much */
  take(row: unknown): void {
    const { maxRows, maxBytes } = this.#limits
    this.#rows += 1
    if (this.#rows > maxRows) throw new TaskFailure('refused', `The statement gives more than ${maxRows} rows`)
    this.#bytes += Buffer.byteLength(JSON.stringify(row))
    if (this.#bytes > maxBytes) throw new TaskFailure('refused', `The rows are more than ${maxBytes} bytes`)
  }
}
