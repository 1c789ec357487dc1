const shortestSecret = 4
const mask = '******'

/** Takes secrets out of everything that leaves a task: as they are, in base64 and URL-encoded. Short ones hide too little. */
export class Mask {
  readonly #forms = new Set<string>()
  #pattern: RegExp | null = null

  /** Every text in a credential's value. */
  add(value: unknown): void {
    if (typeof value === 'string') this.#addText(value)
    else if (value !== null && typeof value === 'object') for (const each of Object.values(value)) this.add(each)
  }

  text(text: string): string {
    if (this.#forms.size === 0) return text
    this.#pattern ??= new RegExp(
      [...this.#forms]
        .sort((a, b) => b.length - a.length)
        .map(quoted)
        .join('|'),
      'g',
    )
    return text.replace(this.#pattern, mask)
  }

  value<T>(value: T): T {
    if (this.#forms.size === 0) return value
    if (typeof value === 'string') return this.text(value) as T
    if (Array.isArray(value)) return value.map((each) => this.value(each)) as T
    if (value === null || typeof value !== 'object') return value
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [this.text(key), this.value(each)])) as T
  }

  #addText(text: string): void {
    if (text.length < shortestSecret) return
    const bytes = Buffer.from(text, 'utf8')
    const forms = [
      text,
      bytes.toString('base64').replace(/=+$/, ''),
      bytes.toString('base64url'),
      encodeURIComponent(text),
      JSON.stringify(text).slice(1, -1),
    ]
    // In the middle of a longer text base64 begins anywhere: the part that does not depend on its neighbours.
    for (const offset of [1, 2]) {
      const inner = Buffer.concat([Buffer.alloc(offset), bytes])
        .toString('base64')
        .replace(/=+$/, '')
      forms.push(inner.slice(offset + 1, inner.length - ((offset + bytes.length) % 3 === 0 ? 0 : 1)))
    }
    for (const form of forms) if (form.length >= shortestSecret) this.#forms.add(form)
    this.#pattern = null
  }
}

function quoted(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
