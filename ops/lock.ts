import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { commandOf } from './local/child.ts'
import { OperatorError } from './local/operator-error.ts'

/**
 * Makes this process the only one that runs on the data folder, until the returned function is called.
 *
 * @throws {OperatorError} when another process holds it.
 */
export function lockDataFolder(folder: string): () => void {
  return lockFile(join(folder, 'up.lock'), (holder) => {
    return `Busbar already runs on ${folder} (process ${holder}): stop it first, or choose another folder with --busbar.data=<folder> and other ports.`
  })
}

/**
 * Makes this process the only one that has a file, until the returned function is called. The lock of a process that is gone does not
 * count.
 *
 * @throws {OperatorError} when another process holds it.
 */
export function lockFile(file: string, refusal: (holder: number) => string): () => void {
  for (let attempt = 1; ; attempt++) {
    try {
      writeFileSync(file, `${process.pid}\n`, { flag: 'wx' })
      return () => rmSync(file, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const holder = Number(readFileSync(file, 'utf8'))
    // A number is reused after a restart of the machine: it counts only when its process looks like one of ours.
    if (attempt > 3 || /cli\.ts|busbar/.test(commandOf(holder) ?? '')) throw new OperatorError(refusal(holder))
    rmSync(file, { force: true })
  }
}
