import { described } from './failure.ts'
import { ask, currentInvocation, limits } from './host.ts'
import { slice } from './intrinsics.ts'
import { pack } from './wire.ts'

export type LogLevel = 'debug' | 'info' | 'log' | 'warn' | 'error' | 'trace'

export function writeLog(level: LogLevel, text: string): void {
  const cut = text.length > limits.maxLogChars ? `${slice(text, 0, limits.maxLogChars)}… (cut)` : text
  ask('log', pack([level, currentInvocation()], cut))
}

/** Logs what went wrong outside any call's own reply. */
export function report(what: string, error: unknown): void {
  const { message, stack } = described(error)
  writeLog('error', `${what}: ${stack ?? message}`)
}
