import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

interface Result {
  readonly benchmark: string
  readonly at: string
  readonly [member: string]: unknown
}

/** Prints a result as one line of JSON and, if wanted, keeps it readable in results/. */
export function keepResult(result: Result, keep: boolean): void {
  process.stdout.write(`${JSON.stringify(result)}\n`)
  if (!keep) return
  const folder = join(import.meta.dirname, 'results')
  mkdirSync(folder, { recursive: true })
  const name = `${result.benchmark}-${result.at.slice(0, 19).replaceAll(':', '-')}.json`
  writeFileSync(join(folder, name), `${JSON.stringify(result, null, 2)}\n`)
}
