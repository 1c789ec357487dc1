import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { startTime } from './processes.ts'

/** What a process holds that is the only one. */
export interface Lock {
  /** False when the file names another. */
  isOurs(): boolean
  release(): void
}

const tries = 5
/** How long others that saw the same dead holder may take to see us. */
const settleMs = 50

/**
 * Makes this process the only one that has the file, which names it; null while another that lives has it. The file of a process that
 * has ended does not count, and however many find one at the same time, one of them gets it.
 */
export async function takeLock(file: string): Promise<Lock | null> {
  const own = `${file}.${process.pid}`
  const me = nameOf(process.pid)
  const isOurs = () => contentOf(file) === me
  for (let attempt = 0; attempt < tries; attempt++) {
    // Linked, not written: it is never there without its content.
    writeFileSync(own, me, { mode: 0o600 })
    const taken = tryTo(() => linkSync(own, file))
    rmSync(own, { force: true })
    if (taken) {
      await sleep(settleMs)
      if (!isOurs()) return null
      return { isOurs, release: () => rmSync(file, { force: true }) }
    }
    const holder = contentOf(file)
    if (holder !== null && isAlive(holder)) return null
    if (holder !== null) removeDead(file, holder)
  }
  return null
}

/** Moved away, not removed: what is moved may have become another's meanwhile, who gets it back. */
function removeDead(file: string, holder: string): void {
  const moved = `${file}.${process.pid}.dead`
  if (!tryTo(() => renameSync(file, moved))) return
  if (contentOf(moved) !== holder) tryTo(() => linkSync(moved, file))
  rmSync(moved, { force: true })
}

/** A number is given again after a while, its start time is not. */
function nameOf(pid: number): string {
  return `${pid} ${startTime(pid)}`
}

function isAlive(written: string): boolean {
  const [pid = '', started] = written.split(' ')
  return /^\d+$/.test(pid) && started !== '' && startTime(Number(pid)) === started
}

function contentOf(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

function tryTo(work: () => void): boolean {
  try {
    work()
    return true
  } catch {
    return false
  }
}
