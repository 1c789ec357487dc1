import type { MessagePort } from 'node:worker_threads'
import git from 'isomorphic-git'
import { TaskFailure } from '../../plugin.ts'
import { packArchive } from '../transforms/compress-thread.ts'
import { gitFailure } from './git-failure.ts'
import { GitFolder } from './git-folder.ts'
import { httpOver } from './git-http.ts'
import { type Change, changedTree, entryAt, filesOf, type GitRepository } from './git-tree.ts'

export interface GitAsked {
  readonly port: MessagePort
  readonly url: string
  /** A branch, a tag or a commit; null: the branch of the repository. */
  readonly ref: string | null
}

interface Answer<Result> {
  readonly result: Result
  /** Null while there is none. */
  readonly commit: string | null
}

interface Repository extends GitRepository {
  readonly http: ReturnType<typeof httpOver>
  readonly url: string
}

/** How far back a task looks for what it has done before. */
const historyDepth = 20
const maxPushes = 3

export async function list({ path, ...asked }: GitAsked & { readonly path: string }) {
  return await withCommit(asked, async (repository, tree) => {
    const found = await entryAt(repository, tree, path)
    if (found?.type !== 'tree') throw new TaskFailure('refused', `There is no folder ${path}`)
    const { tree: entries } = await git.readTree({ ...repository, oid: found.oid })
    return entries.map(({ path: name, type, mode }) => {
      const kind = type === 'tree' ? 'folder' : mode === '120000' ? 'link' : type === 'blob' ? 'file' : 'other'
      return { name, kind: kind as 'file', sizeBytes: null, modifiedAt: null }
    })
  })
}

export async function get({
  path,
  maxBytes,
  ...asked
}: GitAsked & { readonly path: string; readonly maxBytes: number }) {
  return await withCommit(asked, async (repository, tree) => {
    const found = await entryAt(repository, tree, path)
    if (found?.type !== 'blob') throw new TaskFailure('refused', `There is no file ${path}`)
    const { blob } = await git.readBlob({ ...repository, oid: found.oid })
    if (blob.length > maxBytes)
      throw new TaskFailure('refused', `What the server sends is larger than ${maxBytes} bytes`)
    return new Uint8Array(blob)
  })
}

/** All files as a `.tar.gz`. */
export async function clone({ maxBytes, ...asked }: GitAsked & { readonly maxBytes: number }) {
  return await withCommit(asked, async (repository, tree) => {
    const entries = await filesOf(repository, tree, maxBytes)
    return await packArchive({ format: 'tar.gz', entries })
  })
}

interface Commit extends GitAsked {
  /** `null` deletes a file. */
  readonly changes: readonly { readonly path: string; readonly content: Uint8Array | null }[]
  /** A file that is renamed, before the changes. */
  readonly move?: { readonly from: string; readonly to: string }
  readonly message: string
  readonly author: { readonly name: string; readonly email: string }
  /** The same for every attempt: what was pushed under it is not pushed again. */
  readonly key: string
}

/** Makes a commit of the changes and pushes it; again on top of what others have pushed meanwhile. */
export async function commit(asked: Commit): Promise<Answer<null>> {
  for (let pushes = 1; ; pushes++) {
    try {
      return { result: null, commit: await commitOnce(asked) }
    } catch (error) {
      const { code } = error as { code?: string }
      if (code !== 'PushRejectedError' && code !== 'GitPushError') throw gitFailure(error)
      if (code === 'GitPushError' || pushes === maxPushes) throw gitFailure(error)
    }
  }
}

async function commitOnce({ changes, move, message, author, key, ...asked }: Commit): Promise<string | null> {
  const repository = await opened(asked)
  const { head, branch } = await branchOf(repository, asked.ref)
  if (head !== null) {
    const done = (await git.log({ ...repository, ref: head, depth: historyDepth })).find((each) =>
      each.commit.message.includes(trailerOf(key)),
    )
    if (done !== undefined) return done.oid
  }
  const before = head === null ? null : (await git.readCommit({ ...repository, oid: head })).commit.tree
  const tree = await changedTree(repository, before, await changesOf(repository, before, changes, move))
  if (tree === before) return head
  const made = await git.commit({
    ...repository,
    tree,
    parent: head === null ? [] : [head],
    ref: `refs/heads/${branch}`,
    message: `${message.trimEnd()}\n\n${trailerOf(key)}`,
    author: { ...author, timezoneOffset: 0 },
  })
  const pushed = await git.push({ ...repository, ref: branch, remoteRef: `refs/heads/${branch}`, remote: 'origin' })
  if (!pushed.ok) throw new TaskFailure('refused', `The server refused the push: ${pushed.error ?? 'no reason given'}`)
  return made
}

const trailerOf = (key: string) => `Busbar-Task: ${key}\n`

async function changesOf(
  repository: GitRepository,
  tree: string | null,
  changes: Commit['changes'],
  move: Commit['move'],
): Promise<readonly Change[]> {
  const all: Change[] = changes.map(({ path, content }) => ({ path, content, mode: null }))
  if (move !== undefined) {
    const found = tree === null ? null : await entryAt(repository, tree, move.from)
    if (found?.type !== 'blob') throw new TaskFailure('refused', `There is no file ${move.from}`)
    const { blob } = await git.readBlob({ ...repository, oid: found.oid })
    all.push({ path: move.from, content: null, mode: null }, { path: move.to, content: blob, mode: found.mode })
  }
  for (const { path, content } of all) {
    const found = content !== null || tree === null ? null : await entryAt(repository, tree, path)
    if (content === null && found?.type !== 'blob') throw new TaskFailure('refused', `There is no file ${path}`)
  }
  return all
}

/** Where the branch is; one that is new begins where the branch of the repository is. */
async function branchOf(repository: Repository, ref: string | null) {
  const from = { ...repository, remote: 'origin', singleBranch: true, tags: false, depth: historyDepth }
  const fetched = await git.fetch({ ...from, ...(ref !== null && { ref: `refs/heads/${ref}` }) }).catch((error) => {
    if (ref === null || (error as { code?: string }).code !== 'NotFoundError') throw error
    return git.fetch(from)
  })
  const branch = ref ?? fetched.defaultBranch?.replace(/^refs\/heads\//, '') ?? 'main'
  if (fetched.fetchHead !== null) {
    await git.writeRef({ ...repository, ref: `refs/heads/${branch}`, value: fetched.fetchHead, force: true })
  }
  return { branch, head: fetched.fetchHead }
}

async function withCommit<Result>(
  asked: GitAsked,
  work: (repository: Repository, tree: string) => Promise<Result>,
): Promise<Answer<Result>> {
  try {
    const repository = await opened(asked)
    const { fetchHead } = await git.fetch({
      ...repository,
      remote: 'origin',
      singleBranch: true,
      tags: false,
      depth: 1,
      ...(asked.ref !== null && { ref: asked.ref }),
    })
    if (fetchHead === null) throw new TaskFailure('refused', 'The repository is empty')
    const { oid, commit } = await git.readCommit({ ...repository, oid: fetchHead })
    return { result: await work(repository, commit.tree), commit: oid }
  } catch (error) {
    throw gitFailure(error)
  }
}

async function opened({ port, url }: GitAsked): Promise<Repository> {
  const repository = { fs: new GitFolder(), gitdir: '/git', cache: {}, http: httpOver(port), url }
  await git.init({ ...repository, bare: true })
  await git.addRemote({ ...repository, remote: 'origin', url })
  return repository
}
