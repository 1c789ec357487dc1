/** What a call did outside its host so far, so that it can run again without doing it again. */
export class Journal {
  readonly #entries: { readonly name: string; readonly argument: string; readonly answer: Promise<string> }[] = []
  #position = 0

  /** The call runs again from its start. */
  rewind(): void {
    this.#position = 0
  }

  /**
   * The answer of the call's next operation: the one it got when it ran before, else that of doing it now. Undefined when it asks for
   * something else than before, or for too much to be kept: then it cannot run again.
   */
  next(name: string, argument: string, perform: () => Promise<string>): Promise<string> | undefined {
    const before = this.#entries[this.#position]
    if (before !== undefined) {
      if (before.name !== name || before.argument !== argument) return undefined
      this.#position += 1
      return before.answer
    }
    if (this.#entries.length >= maxEntries || argument.length > maxArgument) return undefined
    const answer = perform()
    this.#entries.push({ name, argument, answer })
    this.#position += 1
    return answer
  }

  /** Nothing is left to be answered from before. */
  get atEnd(): boolean {
    return this.#position === this.#entries.length
  }
}

const maxEntries = 32
const maxArgument = 256 * 1024
