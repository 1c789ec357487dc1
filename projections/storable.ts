const escapes = /\\(?:u0000|ud[89a-f][0-9a-f]{2}|.)/g
const suspicious = /\\u0000|\\ud[89a-f]/
/** The last moment of the year 9999, behind which RFC 3339 has no times. */
const lastAt = 253_402_300_799_999

/** JSON text that fits a column of PostgreSQL: U+FFFD for NUL and for half of a surrogate pair, which it cannot hold. */
export function storableJson(value: unknown): string {
  const text = JSON.stringify(value)
  // JSON.stringify escapes surrogates only where their other half is missing.
  return suspicious.test(text) ? text.replace(escapes, (found) => (found.length > 2 ? '\\ufffd' : found)) : text
}

/** As {@link storableJson} does it, for a text. */
export function storableText(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed()
}

/** RFC 3339, UTC; what is outside the years 1970 to 9999 becomes their first or last moment. @param at epoch ms */
export function storableTime(at: number): string {
  return new Date(Math.min(Math.max(at, 0), lastAt)).toISOString()
}
