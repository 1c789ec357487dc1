import { randomBytes } from 'node:crypto'
import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { keyRing, type SecretKeys } from '../bus/sealed.ts'
import type { Config } from '../schemas/config.ts'
import { OperatorError } from './local/operator-error.ts'

/** The file with the keys of a data folder, made at its first start; readable by its owner alone. */
export function keptSecretKeys(folder: string): string {
  const file = join(folder, 'secret-keys')
  if (!existsSync(file)) writeKeyFile(file, [newKey()])
  return file
}

/**
 * What a role is to seal and open with; undefined when nothing is configured.
 * @throws {OperatorError} when the file cannot be read or holds something else
 */
export function secretKeysOf(config: Config): SecretKeys | undefined {
  const written = config['app.secrets.keys']
  if (written !== undefined) return written
  const file = config['app.secrets.keys-file']
  if (file === undefined) return undefined
  const path = resolve(file)
  readKeyFile(path)
  // Asked for at every use: a key that was added a moment ago may be the one.
  return () => readKeyFile(path)
}

/** @throws {OperatorError} naming the file, and the line, never a key */
export function readKeyFile(path: string): readonly string[] {
  try {
    const keys = readFileSync(path, 'utf8')
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
    if (keyRing(keys) === null) throw new TypeError('it is empty')
    return keys
  } catch (cause) {
    const reason = (cause as Error).message.replace('app.secrets.keys: ', '')
    throw new OperatorError(`The keys in ${path} cannot be read: ${reason}`, { cause })
  }
}

/** All keys or, killed at any moment, those from before. */
export function writeKeyFile(path: string, keys: readonly string[]): void {
  const fresh = `${path}.new`
  rmSync(fresh, { force: true })
  writeFileSync(fresh, `${keys.join('\n')}\n`, { mode: 0o600, flag: 'wx', flush: true })
  const before = statSync(path, { throwIfNoEntry: false })
  // The roles may run as somebody else than who writes.
  if (before !== undefined) chownSync(fresh, before.uid, before.gid)
  renameSync(fresh, path)
  const folder = openSync(dirname(path), 'r')
  fsyncSync(folder)
  closeSync(folder)
}

/** `<id>:<32 bytes in base64>`. No other key ever has its id, the thrown away ones included: what it once sealed is in the history. */
export function newKey(): string {
  const day = new Date().toISOString().slice(0, 10)
  return `${day}-${randomBytes(4).toString('hex')}:${randomBytes(32).toString('base64')}`
}

export function keyIdOf(key: string): string {
  return key.slice(0, key.indexOf(':'))
}
