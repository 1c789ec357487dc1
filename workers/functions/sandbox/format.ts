import { inspect } from './inspect.ts'

/** The text of one console call, with Node's format specifiers. */
export function format(values: readonly unknown[]): string {
  const [first, ...rest] = values
  const parts: string[] = []
  if (typeof first === 'string') parts.push(rest.length === 0 ? first : substituted(first, rest))
  else if (values.length > 0) parts.push(inspect(first))
  for (const value of rest) parts.push(typeof value === 'string' ? value : inspect(value))
  return parts.join(' ')
}

/** Takes from `rest` what the specifiers use. */
function substituted(pattern: string, rest: unknown[]): string {
  return pattern.replace(/%[sdifjoOc%]/g, (mark) => {
    if (mark === '%%') return '%'
    if (rest.length === 0) return mark
    const value = rest.shift()
    switch (mark) {
      case '%s':
        return typeof value === 'object' && value !== null
          ? inspect(value, 0)
          : typeof value === 'symbol'
            ? value.toString()
            : `${value as string}`
      case '%d':
        return typeof value === 'object' ? 'NaN' : typeof value === 'bigint' ? `${value}n` : `${Number(value)}`
      case '%i':
        return `${Number.parseInt(String(value), 10)}`
      case '%f':
        return `${Number.parseFloat(String(value))}`
      case '%j':
        return JSON.stringify(value) ?? 'undefined'
      case '%c':
        return ''
      default:
        return inspect(value, mark === '%o' ? 4 : undefined)
    }
  })
}
