import { open } from 'node:fs/promises'

const maxLines = 5000
const maxBytes = 1024 * 1024

export interface LogTail {
  readonly lines: readonly string[]
  /** There is more above than is answered. */
  readonly truncated: boolean
}

/**
 * The last lines of a log (default 100, at most 5000, at most 1 MiB), read from its end, passwords and verifiers struck out. A
 * file that does not exist is empty. `only`: of those last 1 MiB, the lines that match.
 */
export async function readLogTail(
  path: string,
  { lines: wanted = 100, only }: { readonly lines?: number; readonly only?: (line: string) => boolean } = {},
): Promise<LogTail> {
  const count = Math.min(Math.max(Math.trunc(wanted) || 1, 1), maxLines)
  const file = await open(path, 'r').catch(() => undefined)
  if (file === undefined) return { lines: [], truncated: false }
  try {
    const { size } = await file.stat()
    const from = Math.max(0, size - maxBytes)
    const bytes = Buffer.alloc(size - from)
    await file.read(bytes, 0, bytes.length, from)
    const text = bytes.toString('utf8')
    // The first line of a part is rarely whole.
    const whole = (from === 0 ? text : text.slice(text.indexOf('\n') + 1)).split('\n')
    if (whole.at(-1) === '') whole.pop()
    const matching = only === undefined ? whole : whole.filter(only)
    return { lines: matching.slice(-count).map(withoutSecrets), truncated: from > 0 || matching.length > count }
  } finally {
    await file.close()
  }
}

/** Strikes out what a statement in a log can betray. */
export function withoutSecrets(line: string): string {
  return line
    .replace(/(\bpassword\s*(?:=|:|\bis\b)?\s*)(?:E?'(?:[^'\\]|''|\\.)*'|"[^"]*")/gi, "$1'***'")
    .replace(/\b(identified\s+by\s+(?:password\s+)?)'(?:[^'\\]|''|\\.)*'/gi, "$1'***'")
    .replace(/SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+/g, '***')
    .replace(/\bmd5[0-9a-f]{32}\b/g, '***')
    .replace(/(\b(?:postgres(?:ql)?|mysql|mongodb):\/\/[^:@\s/]+:)[^@\s/]+@/g, '$1***@')
}
