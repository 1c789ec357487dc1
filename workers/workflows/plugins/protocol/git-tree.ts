import git, { type TreeEntry } from 'isomorphic-git'
import { TaskFailure } from '../../plugin.ts'
import type { GitFolder } from './git-folder.ts'

export interface GitRepository {
  readonly fs: GitFolder
  readonly gitdir: string
  /** Packs that were read. */
  readonly cache: object
}

export interface Change {
  readonly path: string
  /** Null deletes the file. */
  readonly content: Uint8Array | null
  /** Null: as it was, or as of a plain file. */
  readonly mode: string | null
}

const maxFiles = 100_000
const plainFile = '100644'

/** What is at a path; null when nothing is. */
export async function entryAt(
  repository: GitRepository,
  tree: string,
  path: string,
): Promise<Pick<TreeEntry, 'oid' | 'type' | 'mode'> | null> {
  let found: Pick<TreeEntry, 'oid' | 'type' | 'mode'> | null = { oid: tree, type: 'tree', mode: '040000' }
  for (const name of partsOf(path)) {
    if (found?.type !== 'tree') return null
    const { tree: entries } = await git.readTree({ ...repository, oid: found.oid })
    found = entries.find((each) => each.path === name) ?? null
  }
  return found
}

/** All files of a tree; links and other repositories in it are left out. @throws {TaskFailure} `refused` for too many or too much */
export async function filesOf(repository: GitRepository, tree: string, maxBytes: number) {
  const files: { name: string; bytes: Uint8Array }[] = []
  let sizeBytes = 0
  const walk = async (oid: string, folder: string): Promise<void> => {
    const { tree: entries } = await git.readTree({ ...repository, oid })
    for (const entry of entries) {
      const name = `${folder}${entry.path}`
      if (entry.type === 'tree') await walk(entry.oid, `${name}/`)
      if (entry.type !== 'blob' || entry.mode === '120000') continue
      const { blob } = await git.readBlob({ ...repository, oid: entry.oid })
      sizeBytes += blob.length
      if (sizeBytes > maxBytes || files.length >= maxFiles)
        throw new TaskFailure('refused', `The files are more than ${maxBytes} bytes, or more than ${maxFiles}`)
      files.push({ name, bytes: blob })
    }
  }
  await walk(tree, '')
  return files
}

/** @returns the tree with the changes in it */
export async function changedTree(
  repository: GitRepository,
  before: string | null,
  changes: readonly Change[],
): Promise<string> {
  const parted = changes.map(({ path, ...change }) => ({ ...change, parts: partsOf(path) }))
  return (await changed(repository, before, parted)) ?? (await git.writeTree({ ...repository, tree: [] }))
}

type Parted = Omit<Change, 'path'> & { readonly parts: readonly string[] }

/** Null for a folder that nothing is left in. */
async function changed(
  repository: GitRepository,
  before: string | null,
  changes: readonly Parted[],
): Promise<string | null> {
  const tree = before === null ? [] : (await git.readTree({ ...repository, oid: before })).tree
  const entries = new Map(tree.map((entry) => [entry.path, entry]))
  for (const [name, own] of Map.groupBy(changes, ({ parts }) => parts[0]!)) {
    const there = entries.get(name)
    const below = own.flatMap(({ parts, ...each }) => (parts.length > 1 ? [{ ...each, parts: parts.slice(1) }] : []))
    for (const { content, mode, parts } of own) {
      if (parts.length > 1) continue
      entries.delete(name)
      if (content === null) continue
      const oid = await git.writeBlob({ ...repository, blob: content })
      const kept = there?.type === 'blob' && there.mode !== '120000' ? there.mode : plainFile
      entries.set(name, { path: name, type: 'blob', oid, mode: mode ?? kept })
    }
    if (below.length === 0) continue
    const oid = await changed(repository, there?.type === 'tree' ? there.oid : null, below)
    if (oid === null) entries.delete(name)
    else entries.set(name, { path: name, type: 'tree', oid, mode: '040000' })
  }
  return entries.size === 0 ? null : await git.writeTree({ ...repository, tree: [...entries.values()] })
}

function partsOf(path: string): readonly string[] {
  const parts = path.split('/').filter((each) => each !== '' && each !== '.')
  if (parts.some((each) => each === '..' || each.toLowerCase() === '.git'))
    throw new TaskFailure('refused', `${path} is no path in a repository`)
  return parts
}
