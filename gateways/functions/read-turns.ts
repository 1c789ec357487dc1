import { Unavailable } from '../../schemas/failure.ts'

/**
 * Lets so many large readings of the bus run at once, and so many wait for their turn. The bus drops a connection on which too much has
 * piled up, and with it the calls of all functions.
 */
export class ReadTurns {
  readonly #most: number
  readonly #mostWaiting: number
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor({ most, mostWaiting }: { readonly most: number; readonly mostWaiting: number }) {
    this.#most = most
    this.#mostWaiting = mostWaiting
  }

  /** @throws {Unavailable} when too many wait; what the reading throws */
  async run<T>(read: () => Promise<T>): Promise<T> {
    if (this.#running < this.#most) this.#running++
    else if (this.#waiting.length < this.#mostWaiting) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else throw new Unavailable('http/unavailable', 'Too many are reading; send the request again')
    try {
      return await read()
    } finally {
      const next = this.#waiting.shift()
      // Whoever waits takes the place.
      if (next === undefined) this.#running--
      else next()
    }
  }
}
