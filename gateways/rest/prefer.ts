import { Rejected } from '../../schemas/failure.ts'

/** What a `Prefer` header asks for, RFC 7240. Unknown preferences are ignored, as the RFC says; wrong values of ours are refused. */
export interface Preferences {
  readonly count: 'exact' | null
  readonly return: 'minimal' | 'representation' | 'headers-only' | null
  readonly resolution: 'merge-duplicates' | 'ignore-duplicates' | null
}

const allowed = {
  count: ['exact'],
  return: ['minimal', 'representation', 'headers-only'],
  resolution: ['merge-duplicates', 'ignore-duplicates'],
} as const

const none: Preferences = { count: null, return: null, resolution: null }

/** @throws {Rejected} `http/bad-request` when one of ours has a value it cannot have. */
export function parsePrefer(header: string | string[] | undefined): Preferences {
  if (header === undefined) return none
  const found: Record<string, string> = {}
  for (const part of (Array.isArray(header) ? header.join(',') : header).split(/[,;]/)) {
    const [name = '', value = ''] = part.split('=', 2).map((text) => text.trim().replace(/^"(.*)"$/, '$1'))
    const values: readonly string[] | undefined = Object.hasOwn(allowed, name.toLowerCase())
      ? allowed[name.toLowerCase() as keyof typeof allowed]
      : undefined
    if (!values) continue
    if (!values.includes(value)) {
      throw new Rejected('http/bad-request', `Prefer: ${name} cannot be "${value}"`, {
        details: { header: 'Prefer', preference: name },
        hint: `Use one of ${values.map((v) => `${name}=${v}`).join(', ')}.`,
      })
    }
    found[name.toLowerCase()] ??= value
  }
  return { ...none, ...found }
}

/** The `Preference-Applied` header's text, or null when nothing was asked for. */
export function preferenceApplied(preferences: Preferences): string | null {
  const applied = Object.entries(preferences).flatMap(([name, value]) => (value === null ? [] : [`${name}=${value}`]))
  return applied.length > 0 ? applied.join(', ') : null
}
