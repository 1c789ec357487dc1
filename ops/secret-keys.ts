import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The key ring of a data folder, made at its first start; readable by its owner alone. */
export function keptSecretKeys(folder: string): string[] {
  const file = join(folder, 'secret-keys')
  if (!existsSync(file)) {
    const key = `${new Date().toISOString().slice(0, 10)}:${randomBytes(32).toString('base64')}`
    writeFileSync(file, `${key}\n`, { mode: 0o600, flag: 'wx', flush: true })
  }
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
}
