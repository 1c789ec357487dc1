import { randomInt } from 'node:crypto'
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/** Where scripts find programs. */
export const scriptPath: readonly string[] = ['/usr/local/bin', '/usr/bin', '/bin', '/opt/homebrew/bin']

/** Beyond what accounts, containers and services of a machine use. */
const ownIds = { from: 0x7800_0000, to: 0x7900_0000 }
/** Where only the usual 65 536 ids are mapped, as in a container without root on its machine. */
const mappedIds = { from: 20_000, to: 60_000 }

/**
 * The user, and group, that one script runs as: one of its own, so that it reaches no other script, and limits and the end of all its
 * processes are its own too. Null when this process is not root: the script then runs as what this process is.
 */
export function scriptAccount(): number | null {
  if (process.getuid?.() !== 0) return null
  const { from, to } = accounts()
  return randomInt(from, to)
}

export function isScriptAccount(id: number): boolean {
  const { from, to } = accounts()
  return id >= from && id < to
}

function accounts() {
  return hasAllIds() ? ownIds : mappedIds
}

/** A program that the account may run; null when there is none. */
export function findProgram(name: string, account: number | null): string | null {
  return scriptPath.map((folder) => join(folder, name)).find((path) => mayRun(path, account)) ?? null
}

export function mayRun(path: string, account: number | null): boolean {
  try {
    accessSync(path, constants.X_OK)
    return account === null || isOpenToAll(path)
  } catch {
    return false
  }
}

/** Executable, and in folders that anybody may enter. */
function isOpenToAll(path: string): boolean {
  for (let place = resolve(path); ; place = dirname(place)) {
    if ((statSync(place).mode & 0o001) === 0) return false
    if (place === dirname(place)) return true
  }
}

function hasAllIds(): boolean {
  if (!existsSync('/proc/self/uid_map')) return true
  const ranges = readFileSync('/proc/self/uid_map', 'utf8').trim().split('\n')
  return ranges.some((range) => Number(range.trim().split(/\s+/)[2]) > ownIds.to)
}
