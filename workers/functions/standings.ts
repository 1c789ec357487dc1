/** A function as the pool knows it. */
export interface Standing {
  /** Of the host processes, which it comes to. */
  readonly place: number
  running: number
  /** Calls answered. */
  credit: number
}

/** What is known of each function that was called. */
export class Standings {
  readonly #standings = new Map<string, Standing>()

  of(functionId: string): Standing {
    const known = this.#standings.get(functionId)
    if (known !== undefined) return known
    const standing = { place: hash(functionId), running: 0, credit: 0 }
    this.#standings.set(functionId, standing)
    return standing
  }

  forget(functionId: string): void {
    this.#standings.delete(functionId)
  }
}

/** FNV-1a: the same function comes to the same host. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193)
  return value >>> 0
}
