import { distance } from 'fastest-levenshtein'

/** Longer names are not compared: the comparison is quadratic and nobody mistypes 100 characters. */
const maxLength = 100

/** `perhaps you meant "x"`, when one of the names is near enough to be a slip of the finger. */
export function perhaps(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > maxLength) return undefined
  let best: string | undefined
  let bestDistance = Math.max(2, Math.floor(name.length / 3)) + 1
  for (const candidate of candidates) {
    if (candidate.length > maxLength) continue
    const away = distance(name.toLowerCase(), candidate.toLowerCase())
    if (away < bestDistance) {
      best = candidate
      bestDistance = away
    }
  }
  return best === undefined ? undefined : `perhaps you meant "${best}"`
}

/** For `Rejected`'s third argument: `{ hint }` when there is one, nothing otherwise. */
export function hinted(hint: string | undefined): { readonly hint?: string } {
  return hint === undefined ? {} : { hint }
}

/** What a caller sent, short enough to stand in an error text. */
export function shown(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}
