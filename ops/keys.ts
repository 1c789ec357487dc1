import { existsSync, realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Bus } from '../bus/connect.ts'
import { type KeyRing, keyRing, SealBroken } from '../bus/sealed.ts'
import type { Config } from '../schemas/config.ts'
import { openBus } from './bus.ts'
import { hasCallsFromBefore } from './keys-functions.ts'
import { type SealedKind, subjectsOf } from './keys-kind.ts'
import { sealedKinds } from './keys-kinds.ts'
import { type KeyUses, keyUses } from './keys-uses.ts'
import { OperatorError } from './local/operator-error.ts'
import { lockFile } from './lock.ts'
import { createLog } from './log.ts'
import { keyIdOf, newKey, readKeyFile, writeKeyFile } from './secret-keys.ts'

interface KeySource {
  /** Null: they are in the configuration, which only the operator changes. */
  readonly file: string | null
  read(): readonly string[]
}

/** A key of the platform, without the key. */
export interface ListedKey {
  readonly id: string
  /** `missing`: something needs it, and it is not there. */
  readonly role: 'seals' | 'opens' | 'missing'
  /** What lies under it, and how often. */
  readonly uses: Readonly<Record<string, number>>
}

/** @throws {OperatorError} without keys, or without a bus */
export async function listKeys(config: Config, folder: string): Promise<readonly ListedKey[]> {
  const source = keySource(config, folder)
  return await withBus(config, async (bus) => listed(source.read(), await keyUses(bus)))
}

function listed(keys: readonly string[], uses: KeyUses): readonly ListedKey[] {
  const ids = keys.map(keyIdOf)
  const usesOf = (id: string) => Object.fromEntries(uses.get(id) ?? [])
  const missing = [...uses.keys()].filter((id) => !ids.includes(id))
  return [
    ...ids.map((id, index) => ({ id, role: index === 0 ? 'seals' : 'opens', uses: usesOf(id) }) as const),
    ...missing.map((id) => ({ id, role: 'missing', uses: usesOf(id) }) as const),
  ]
}

/** A line a key. */
export function shownKeys(keys: readonly ListedKey[]): string {
  const width = Math.max(...keys.map(({ id }) => id.length))
  const lines = keys.map(({ id, role, uses }) => {
    const what = Object.entries(uses).map(([name, count]) => `${count} ${name}`)
    const used = what.length > 0 ? what.join(', ') : role === 'seals' ? 'nothing yet' : 'nothing any more'
    return `${id.padEnd(width)}  ${role.padEnd(7)}  ${used}`
  })
  return `${lines.join('\n')}\n`
}

/** Whatever was sealed with an older key, and not stored yet, is stored by then or never. */
const settleMs = 12_000
const callsMs = 15_000
const progressEvery = 100

export interface RotateOptions {
  readonly tell: (line: string) => void
  /** Default: longer than the bus lets anybody wait. */
  readonly settleMs?: number
}

/**
 * A new key seals from now on; all that lies under older ones is sealed anew, and those that nothing needs any more are thrown away. A
 * rotation that did not come to its end is gone on with. Killed at any moment, everything can be opened.
 *
 * @throws {OperatorError} without keys or bus, or while another one runs
 */
export async function rotateKeys(config: Config, folder: string, options: RotateOptions): Promise<void> {
  const source = keySource(config, folder)
  const { file } = source
  if (file === null) {
    await withBus(config, (bus) => finishRotation(bus, source, options))
    return
  }
  const unlock = lockFile(`${file}.lock`, (holder) => `The keys are being rotated already (process ${holder}).`)
  try {
    // Without a bus nothing can be sealed anew: that is found out before there is another key.
    await withBus(config, async (bus) => {
      const keys = source.read()
      if (keys.length === 1) {
        const fresh = newKey()
        write(file, [fresh, ...keys])
        options.tell(`the key ${keyIdOf(fresh)} seals from now on`)
      } else options.tell(`going on with a rotation to ${keyIdOf(keys[0]!)}`)
      await finishRotation(bus, source, options)
    })
  } finally {
    unlock()
  }
}

async function finishRotation(bus: Bus, { file, read }: KeySource, options: RotateOptions): Promise<void> {
  const { tell, settleMs: waitMs = settleMs } = options
  const [current, ...older] = read().map(keyIdOf)
  if (older.length === 0) {
    throw new OperatorError(
      'app.secrets.keys has one key, and only you can change it: put another before it (`busbar keys new` makes one), start the roles again, and then rotate.',
    )
  }
  await resealAll(bus, read, tell)
  tell(`waiting ${Math.ceil(waitMs / 1_000)} s for what others are storing`)
  const resealedAt = Date.now()
  await delay(waitMs)
  await resealAll(bus, read, tell)
  const uses = await keyUses(bus)
  const unused = (await callsAreOver(bus, resealedAt)) ? older.filter((id) => !uses.has(id)) : []
  for (const { id, uses } of listed(read(), await keyUses(bus)).filter(({ id }) => older.includes(id))) {
    const what = Object.entries(uses).map(([name, count]) => `${count} ${name}`)
    if (!unused.includes(id))
      tell(`the key ${id} is kept: ${what.join(', ') || 'calls of functions'} need it; rotate again later`)
  }
  if (unused.length === 0) return
  if (file === null) {
    tell(`nothing needs ${unused.join(', ')} any more: take it out of app.secrets.keys`)
    return
  }
  write(
    file,
    read().filter((key) => !unused.includes(keyIdOf(key))),
  )
  tell(`${unused.join(', ')} is thrown away; ${current} is the key`)
}

/** Until nothing is left; a round finds what was stored during the one before. */
async function resealAll(bus: Bus, read: () => readonly string[], tell: RotateOptions['tell']): Promise<void> {
  const ring = keyRing(read)!
  const broken = new Set<string>()
  for (let changed = 1; changed > 0; ) {
    changed = 0
    for (const kind of sealedKinds) {
      const subjects = await subjectsOf(bus, kind)
      let done = 0
      for (const [index, subject] of subjects.entries()) {
        if (await resealOne(bus, ring, { kind, subject, broken })) done++
        if ((index + 1) % progressEvery === 0) tell(`${kind.name}: ${index + 1} of ${subjects.length} seen`)
      }
      if (done > 0) tell(`${kind.name}: ${done} sealed anew`)
      changed += done
    }
  }
  for (const message of broken) tell(message)
}

interface One {
  readonly kind: SealedKind
  readonly subject: string
  readonly broken: Set<string>
}

/** What cannot be opened is told of, and stops nothing else. */
async function resealOne(bus: Bus, ring: KeyRing, { kind, subject, broken }: One): Promise<boolean> {
  try {
    return await kind.reseal(bus, ring, subject)
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error
    broken.add(`${subject} stays as it is: ${error.message}`)
    return false
  }
}

async function callsAreOver(bus: Bus, at: number): Promise<boolean> {
  for (const until = Date.now() + callsMs; Date.now() < until; await delay(500)) {
    if (!(await hasCallsFromBefore(bus, at))) return true
  }
  return false
}

/** @throws {OperatorError} when there are none */
function keySource(config: Config, folder: string): KeySource {
  const written = config['app.secrets.keys']
  if (written !== undefined) return { file: null, read: () => written }
  const file = resolve(config['app.secrets.keys-file'] ?? join(folder, 'secret-keys'))
  if (!existsSync(file)) {
    throw new OperatorError(
      `There are no keys: ${file} is not there, and neither app.secrets.keys nor app.secrets.keys-file is set.`,
    )
  }
  const path = realpathSync(file)
  return { file: path, read: () => readKeyFile(path) }
}

/** @throws {OperatorError} naming the file */
function write(file: string, keys: readonly string[]): void {
  try {
    writeKeyFile(file, keys)
  } catch (cause) {
    throw new OperatorError(
      `${file} cannot be written (${(cause as NodeJS.ErrnoException).code}): put a key of \`busbar keys new\` before the others yourself, and rotate again.`,
      { cause },
    )
  }
}

async function withBus<T>(config: Config, work: (bus: Bus) => Promise<T>): Promise<T> {
  const bus = await openBus(config, createLog('error'), 'keys', 'all')
  try {
    return await work(bus)
  } finally {
    await bus.close()
  }
}
