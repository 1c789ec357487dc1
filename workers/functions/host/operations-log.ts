/** One line of a function's console. `at`: epoch ms. `invocationId`: the call it belongs to, '' outside any. */
export interface LogLine {
  readonly at: number
  readonly level: string
  readonly invocationId: string
  readonly text: string
}

/** How much a function may log. The rest of a window is dropped and counted. */
export interface LogLimits {
  readonly linesPerSecond: number
  readonly charsPerSecond: number
  readonly maxLineChars: number
}
export const LOG_LIMITS: LogLimits = { linesPerSecond: 200, charsPerSecond: 262_144, maxLineChars: 16_400 }

export interface LogSink {
  readonly write: (level: string, invocationId: string, text: string) => void
}

const LEVELS: ReadonlySet<string> = new Set(['debug', 'info', 'log', 'warn', 'error', 'trace'])

/** Hands lines on while they keep to the limits, and one line saying how many were dropped when a new second begins. */
export function logSink(onLine: (line: LogLine) => void, limits: LogLimits, now: () => number = Date.now): LogSink {
  let second = 0
  let lines = 0
  let chars = 0
  let dropped = 0
  return {
    write(level, invocationId, given) {
      const at = now()
      const current = Math.floor(at / 1000)
      if (current !== second) {
        if (dropped > 0) onLine({ at, level: 'warn', invocationId: '', text: `${dropped} log lines were dropped` })
        second = current
        lines = chars = dropped = 0
      }
      const text = given.slice(0, limits.maxLineChars)
      if (lines >= limits.linesPerSecond || chars + text.length > limits.charsPerSecond) {
        dropped++
        return
      }
      lines++
      chars += text.length
      onLine({ at, level: LEVELS.has(level) ? level : 'log', invocationId: invocationId.slice(0, 128), text })
    },
  }
}
