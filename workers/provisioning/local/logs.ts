import { readLogTail } from './metrics/log-tail.ts'

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
  const { lines, truncated } = await readLogTail(path, { lines: count })
  return { logs: lines.join('\n'), lines: lines.map(parsed), truncated }
}

function parsed(line: string): LogLine {
  const [, day, zone, pid, severity, message] = linePattern.exec(line) ?? []
  if (day === undefined) return { time: null, severity: null, pid: null, message: line }
  const time = zone === 'UTC' || zone === 'GMT' ? `${day.replace(' ', 'T')}Z` : `${day} ${zone}`
  return { time, severity: severity!, pid: Number(pid), message: message! }
}
