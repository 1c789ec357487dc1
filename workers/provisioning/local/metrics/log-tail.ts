import { type FileHandle, open } from 'node:fs/promises'

const maxLines = 5000
const partBytes = 1024 * 1024
/** What is looked for may lie behind much that is not. */
const maxParts = 128
const maxLineBytes = 4 * partBytes

export interface LogTail {
  readonly lines: readonly string[]
  /** There is more above than is answered. */
  readonly truncated: boolean
}

/**
 * The last lines of a log (default 100, at most 5000, at most 1 MiB), read from its end, passwords, verifiers and the place of the
 * instance's folder struck out. A file that does not exist is empty. `only`: the lines that match, of the last 128 MiB, also of what was
 * moved to `.1`.
 */
export async function readLogTail(
  path: string,
  { lines: wanted = 100, only }: { readonly lines?: number; readonly only?: (line: string) => boolean } = {},
): Promise<LogTail> {
  const count = Math.min(Math.max(Math.trunc(wanted) || 1, 1), maxLines)
  const root = `${path.split('/members/')[0]}/`
  let found: string[] = []
  let parts = 0
  for await (const { lines, isFirst } of partsOf(only === undefined ? [path] : [path, `${path}.1`])) {
    const matching = only === undefined ? lines : lines.filter(only)
    found = [...matching, ...found].slice(-count - 1)
    parts++
    const enough = found.length > count || parts === (only === undefined ? 1 : maxParts)
    if (enough) return { lines: found.slice(-count).map((line) => shown(line, root)), truncated: !isFirst || found.length > count } // biome-ignore format: one line
  }
  return { lines: found.map((line) => shown(line, root)), truncated: false }
}

function shown(line: string, root: string): string {
  return withoutSecrets(line.replaceAll(root, ''))
}

/** The lines of files by parts, the last one first. */
async function* partsOf(paths: readonly string[]) {
  for (const path of paths) {
    const file = await open(path, 'r').catch(() => undefined)
    if (file === undefined) continue
    try {
      yield* partsOfFile(file)
    } finally {
      await file.close()
    }
  }
}

async function* partsOfFile(file: FileHandle) {
  let { size: end } = await file.stat()
  /** The end of a line that begins in the part before. */
  let rest: Buffer = Buffer.alloc(0)
  while (end > 0) {
    const from = Math.max(0, end - partBytes)
    const bytes = Buffer.alloc(end - from)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, from)
    const part = Buffer.concat([bytes.subarray(0, bytesRead), rest])
    // The first line of a part is rarely whole; a very long one is left out.
    const firstEnd = part.indexOf('\n')
    const start = from === 0 ? 0 : firstEnd < 0 ? part.length : firstEnd + 1
    rest = start > maxLineBytes ? Buffer.alloc(0) : part.subarray(0, start)
    const lines = part.subarray(start).toString('utf8').split('\n')
    if (lines.at(-1) === '') lines.pop()
    yield { lines, isFirst: from === 0 }
    end = from
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
