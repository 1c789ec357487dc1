/** A name that stands without quotes where it is written into a document. */
export class Name {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
  toJSON(): string {
    return this.name
  }
}

/** As it stands in a document. */
export function written(value: unknown): string {
  if (value instanceof Name) return value.name
  if (Array.isArray(value)) return `[${value.map(written).join(', ')}]`
  if (typeof value === 'object' && value !== null)
    return `{${Object.entries(value)
      .map(([name, member]) => `${name}: ${written(member)}`)
      .join(', ')}}`
  return JSON.stringify(value)
}
