import { format } from './format.ts'
import { inspect } from './inspect.ts'
import { clock } from './intrinsics.ts'
import { type LogLevel, report, writeLog } from './log.ts'

const MAX_NAMES = 1_000
let indent = ''
const counts = new Map<string, number>()
const started = new Map<string, number>()

function write(level: LogLevel, values: readonly unknown[]): void {
  let text: string
  try {
    text = format(values)
  } catch (error) {
    report('A value could not be logged', error)
    return
  }
  writeLog(level, indent === '' ? text : indent + text.replaceAll('\n', `\n${indent}`))
}

const label = (given: unknown): string => (given === undefined ? 'default' : String(given))

function remember(names: Map<string, number>, name: string, value: number): void {
  if (names.size < MAX_NAMES || names.has(name)) names.set(name, value)
}

function elapsed(given: unknown, rest: readonly unknown[], ends: boolean): void {
  const name = label(given)
  const from = started.get(name)
  if (from === undefined) {
    write('warn', [`No such label '${name}' for console.time`])
    return
  }
  if (ends) started.delete(name)
  write('log', [`${name}: ${clock() - from}ms`, ...rest])
}

/** `console`: every call is one log line of the invocation. */
export const consoleObject = {
  debug: (...values: unknown[]) => write('debug', values),
  info: (...values: unknown[]) => write('info', values),
  log: (...values: unknown[]) => write('log', values),
  warn: (...values: unknown[]) => write('warn', values),
  error: (...values: unknown[]) => write('error', values),
  trace: (...values: unknown[]) => write('trace', [format(['Trace:', ...values])]),
  dir: (value: unknown) => write('log', [inspect(value)]),
  dirxml: (...values: unknown[]) => write('log', values),
  table: (value: unknown) => write('log', [inspect(value)]),
  assert: (holds: unknown, ...values: unknown[]) => {
    if (!holds) write('error', ['Assertion failed', ...values])
  },
  count: (given?: unknown) => {
    const name = label(given)
    const next = (counts.get(name) ?? 0) + 1
    remember(counts, name, next)
    write('log', [`${name}: ${next}`])
  },
  countReset: (given?: unknown) => {
    counts.delete(label(given))
  },
  group: (...values: unknown[]) => {
    if (values.length > 0) write('log', values)
    if (indent.length < 64) indent += '  '
  },
  groupCollapsed: (...values: unknown[]) => consoleObject.group(...values),
  groupEnd: () => {
    indent = indent.slice(2)
  },
  time: (given?: unknown) => remember(started, label(given), clock()),
  timeEnd: (given?: unknown) => elapsed(given, [], true),
  timeLog: (given?: unknown, ...values: unknown[]) => elapsed(given, values, false),
  clear: () => {},
}
