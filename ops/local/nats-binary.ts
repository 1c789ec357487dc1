import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { OperatorError } from './operator-error.ts'

/** The first server with message schedules (`@at`), message TTL, atomic batches and counters. */
export const oldestNats = '2.12.0'

export interface NatsPlaces {
  /** The PATH to look on. */
  readonly searchPath?: string
  /** The folder where a fetched server is kept. */
  readonly binFolder?: string
}

/**
 * Path of a nats-server that is new enough: on the search path, else in the folder of fetched ones.
 *
 * @throws {OperatorError} when there is none.
 */
export function findNats(places: NatsPlaces = {}): string {
  const found = lookForNats(places)
  if (found !== undefined) return found
  throw new OperatorError(
    `No nats-server ${oldestNats} or newer on PATH${places.binFolder ? ` or in ${places.binFolder}` : ''}.`,
  )
}

/** Like {@link findNats}, undefined when there is none. */
export function lookForNats({
  searchPath = '/usr/local/bin:/usr/bin:/usr/sbin',
  binFolder,
}: NatsPlaces): string | undefined {
  const folders = [...searchPath.split(delimiter), ...(binFolder === undefined ? [] : [binFolder])]
  return folders
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, 'nats-server'))
    .find(newEnough)
}

function newEnough(binary: string): boolean {
  const version = natsVersion(binary)
  return version !== undefined && compareVersions(version, oldestNats) >= 0
}

/** `2.15.1` of `nats-server: v2.15.1`; undefined when there is no such program or it does not run here. */
export function natsVersion(binary: string): string | undefined {
  if (!existsSync(binary)) return undefined
  try {
    return /v?(\d+\.\d+\.\d+)/.exec(execFileSync(binary, ['--version'], { encoding: 'utf8' }))?.[1]
  } catch {
    return undefined
  }
}

/** Negative when `a` is the older one. */
function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split('.').map(Number)) as [number[], number[]]
  for (let place = 0; place < 3; place++) {
    const difference = (left[place] ?? 0) - (right[place] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}
