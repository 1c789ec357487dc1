import { type Logger, pino } from 'pino'
import { maskUrl } from '../schemas/config/mask.ts'
import type { Config } from '../schemas/config.ts'

/** Fields of one outcome, and a short text that is the same for all outcomes of its kind. */
export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

/**
 * The log of one process: JSON lines on standard output, one line an outcome, fields instead of prose. Errors keep their
 * stack here (and only here); URLs lose their passwords.
 */
export function createLog(level: Config['log.level'], base: Readonly<Record<string, unknown>> = {}): Log {
  return pino({
    level,
    base: { ...base },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { err: maskedError, error: maskedError },
  })
}

function maskedError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { type, message, stack, ...rest } = pino.stdSerializers.err(error)
  return { type, message: maskUrl(message), stack: maskUrl(stack), ...('code' in rest ? { code: rest.code } : {}) }
}
