import type { Bus } from '../../bus/connect.ts'
import { logSubject } from '../../bus/subject.ts'
import type { LogLine } from '../../schemas/functions/call.ts'

/** Puts what functions write on the stream LOGS, in batches of a moment. Lines that the bus cannot take at once are dropped. */
export interface FunctionLog {
  write(functionId: string, line: LogLine): void
  /** Sends what waits. */
  flush(): void
  close(): void
}

const flushMs = 100
/** Of one function between two flushes; the host bounds what a function may write. */
const maxLines = 1_000
const maxBatchBytes = 256 * 1024

export function functionLog({ connection }: Bus): FunctionLog {
  const waiting = new Map<string, string[]>()
  const send = (functionId: string, lines: readonly string[]) => {
    if (!connection.isClosed()) connection.publish(logSubject('function', functionId), `[${lines.join(',')}]`)
  }
  const flush = () => {
    for (const [functionId, lines] of waiting) for (const batch of batches(lines)) send(functionId, batch)
    waiting.clear()
  }
  const timer = setInterval(flush, flushMs)
  return {
    write(functionId, line) {
      const lines = waiting.get(functionId) ?? []
      if (lines.length >= maxLines) return
      lines.push(JSON.stringify(line))
      waiting.set(functionId, lines)
    },
    flush,
    close() {
      clearInterval(timer)
      flush()
    },
  }
}

function* batches(lines: readonly string[]): Iterable<readonly string[]> {
  let batch: string[] = []
  let sizeBytes = 0
  for (const line of lines) {
    const bytes = Buffer.byteLength(line) + 1
    if (sizeBytes + bytes > maxBatchBytes && batch.length > 0) {
      yield batch
      batch = []
      sizeBytes = 0
    }
    batch.push(line)
    sizeBytes += bytes
  }
  if (batch.length > 0) yield batch
}
