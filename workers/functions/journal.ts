interface Entry {
  readonly name: string
  readonly argument: string
  readonly answer: Promise<string>
}

/** What a call did outside its host so far, so that it can run again without doing it again. */
export class Journal {
  #entries: Entry[] = []
  #position = 0
  #answerChars = 0
  #closed = false

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
    if (this.#closed || this.#entries.length >= maxEntries || argument.length > maxArgument) return undefined
    const answer = perform()
    this.#entries.push({ name, argument, answer })
    this.#position += 1
    return answer
  }

  /**
   * Counts an answer that has come. When all are more than is kept, they are forgotten; answers the names of what was done, which cannot be
   * answered from here any more.
   */
  answered(chars: number): readonly string[] {
    this.#answerChars += chars
    if (this.#answerChars <= maxAnswers || !this.atEnd) return []
    const names = this.#entries.map(({ name }) => name)
    this.#entries = []
    this.#position = 0
    this.#closed = true
    return names
  }

  /** Nothing is left to be answered from before. */
  get atEnd(): boolean {
    return this.#position === this.#entries.length
  }
}

const maxEntries = 32
const maxArgument = 256 * 1024
const maxAnswers = 1024 * 1024
