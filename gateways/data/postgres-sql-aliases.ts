/** Gives every table of a statement an alias of its own. Rows are always named `alias.*`: a bare alias would yield to a column of that name. */
export class Aliases {
  readonly #prefix: string
  #count = 0

  constructor(prefix = 't') {
    this.#prefix = prefix
  }

  next(): string {
    return `${this.#prefix}${this.#count++}`
  }
}
