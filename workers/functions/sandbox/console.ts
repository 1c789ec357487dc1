import { type LogLevel, writeLog } from './log.ts'

const print =
  (level: LogLevel) =>
  (...values: unknown[]): void =>
    writeLog(level, values.map(String).join(' '))

export const consoleObject = {
  debug: print('debug'),
  info: print('info'),
  log: print('log'),
  warn: print('warn'),
  error: print('error'),
  trace: print('trace'),
}
