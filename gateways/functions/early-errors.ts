import { SourceMap } from 'node:module'
import { Script } from 'node:vm'

const filename = 'function.js'
const prefix = 'function program(exports, require, module) {'
const maxText = 300

/**
 * What the engine has against a compiled script that the compiler let pass, such as a regular expression that is none: it would come
 * to light with the first call only. The script is not run. Null where there is nothing.
 */
export function earlyError(code: string, sourceMap: string): string | null {
  try {
    new Script(`${prefix}${code}\n}`, { filename })
    return null
  } catch (error) {
    if (!(error instanceof SyntaxError)) return 'The source is nested too deeply'
    return `${error.message.slice(0, maxText)}${placeOf(error, sourceMap)}`
  }
}

/** The engine shows the line, and under it marks the place. */
function placeOf({ stack = '' }: Error, sourceMap: string): string {
  const [head = '', , marks = ''] = stack.split('\n', 3)
  const line = Number(head.slice(head.lastIndexOf(':') + 1))
  const mark = marks.indexOf('^')
  if (!head.startsWith(`${filename}:`) || mark < 0) return ''
  const column = line === 1 ? mark - prefix.length : mark
  const entry = new SourceMap(JSON.parse(sourceMap)).findEntry(line - 1, Math.max(0, column))
  if (!('originalLine' in entry)) return ''
  return ` (line ${entry.originalLine + 1}, column ${entry.originalColumn + 1})`
}
