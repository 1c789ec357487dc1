import { statfs } from 'node:fs/promises'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { sizeText } from '../../../schemas/provisioning/tiers.ts'

const mib = 1024 ** 2
/** What a server needs to write its log, end well and start again. */
const leastFreeBytes = 32 * mib
/** An instance that was full is written to again only with some more room than it stopped at. */
const freeAgainBytes = 64 * mib
const quotaAgain = 0.95

/** Why nothing more may be written to an instance; null: there is room. `diskBytes`: what its servers take; null: not known. */
export async function storageProblem(
  folder: string,
  instance: Pick<Instance, 'storageBytes' | 'health' | 'healthReason'>,
  diskBytes: number | null,
): Promise<string | null> {
  const problem = await diskProblem(folder, instance)
  if (problem !== null) return problem
  const { storageBytes, health, healthReason } = instance
  const wasFull = health === 'STORAGE_FULL'
  if (diskBytes === null) return wasFull && healthReason !== diskFull ? healthReason : null
  if (diskBytes < storageBytes * (wasFull ? quotaAgain : 1)) return null
  return `The storage of ${sizeText(storageBytes)} is full: writing is refused until it is resized`
}

const diskFull = 'The disk of the machine is full: writing is refused until there is room'

/** Why a server on this disk cannot write, whatever its quota. */
export async function diskProblem(folder: string, { health }: Pick<Instance, 'health'>): Promise<string | null> {
  const { bavail, bsize } = await statfs(folder)
  const least = health === 'STORAGE_FULL' ? freeAgainBytes : leastFreeBytes
  return bavail * bsize < least ? diskFull : null
}
