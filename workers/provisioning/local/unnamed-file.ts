import { closeSync, fchownSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NodeAccount } from './postgres-node.ts'

/**
 * An open file that no folder lists: it is gone with the last who has it open, however they end. A child that is given the descriptor
 * reads it as `/dev/fd/<n>`.
 */
export function unnamedFile(text: string, owner?: NodeAccount): number {
  const folder = mkdtempSync(join(tmpdir(), 'bb-'))
  let file: number | undefined
  try {
    file = openSync(join(folder, 'f'), 'wx+', 0o600)
    rmSync(folder, { recursive: true })
    if (owner !== undefined) fchownSync(file, owner.uid, owner.gid)
    // Where it is read from stays its beginning.
    writeSync(file, text, 0)
    return file
  } catch (error) {
    if (file !== undefined) closeSync(file)
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}
