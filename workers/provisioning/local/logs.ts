import { open } from 'node:fs/promises'

/** How far back a log is read for its last lines. */
const maxBytes = 4 * 1024 * 1024
const linePattern = /^(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:\.\d+)?) (\S+) \[(\d+)\] (\w+): +(.*)$/

interface LogLine {
  /** As the server writes it, UTC; null for a line that goes on with the one before. */
  readonly time: string | null
  readonly severity: string | null
  readonly pid: number | null
  readonly message: string
}

/** The last lines of a server's log, the newest last, without secrets. */
export async function readLog(
  path: string,
  count: number,
): Promise<{ logs: string; lines: readonly LogLine[]; truncated: boolean }> {
  const { text, whole } = await endOf(path)
  const all = text.split('\n').filter((line) => line !== '')
  const lines = all.slice(-count).map(withoutSecrets)
  return { logs: lines.join('\n'), lines: lines.map(parsed), truncated: !whole || all.length > count }
}

function parsed(line: string): LogLine {
  const [, day, zone, pid, severity, message] = linePattern.exec(line) ?? []
  if (day === undefined) return { time: null, severity: null, pid: null, message: line }
  const time = zone === 'UTC' || zone === 'GMT' ? `${day.replace(' ', 'T')}Z` : `${day} ${zone}`
  return { time, severity: severity!, pid: Number(pid), message: message! }
}

/** A statement that failed is written down as it was sent. */
function withoutSecrets(line: string): string {
  return line
    .replace(/(password\s*=?\s*)(E?'(?:[^']|'')*'|\S+)/gi, '$1<REDACTED>')
    .replace(/SCRAM-SHA-256\$\S+/g, '<REDACTED>')
}

async function endOf(path: string): Promise<{ text: string; whole: boolean }> {
  let file: Awaited<ReturnType<typeof open>>
  try {
    file = await open(path)
  } catch {
    return { text: '', whole: true }
  }
  try {
    const { size } = await file.stat()
    const start = Math.max(0, size - maxBytes)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start)
    const text = buffer.subarray(0, bytesRead).toString('utf8')
    // The first line of a part is cut off.
    return start === 0 ? { text, whole: true } : { text: text.slice(text.indexOf('\n') + 1), whole: false }
  } finally {
    await file.close()
  }
}
