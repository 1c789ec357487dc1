import { MessageChannel } from 'node:worker_threads'
import { TaskFailure } from '../../plugin.ts'
import { threadModule } from '../thread-module.ts'
import { serveHttp } from './git-http.ts'
import type { FileServer, TransferRun } from './transfer.ts'

const work = threadModule<typeof import('./git-thread.ts')>(new URL('./git-thread.ts', import.meta.url))
const maxMs = 10 * 60_000
const ownAuthor = { name: 'Busbar', email: 'busbar@localhost' }

/**
 * Opens a repository over HTTP: reading is of one commit, and every change is a commit that is pushed.
 * Source: https://git-scm.com/docs/http-protocol
 */
export function openGit({ given, place }: TransferRun): FileServer {
  const { input, idempotencyKey } = given
  let version: string | null = null
  const asking = asker({ given, place })
  const take = <Result>({ commit, result }: { readonly commit: string | null; readonly result: Result }): Result => {
    version = commit
    return result
  }
  const noFolders = async () => {
    throw new TaskFailure('refused', 'A repository has no empty folders: they come and go with their files')
  }
  const change = async (what: string, change: Pick<Parameters<typeof asking.commit>[0], 'changes' | 'move'>) => {
    const author = authorOf(input.author)
    take(await asking.commit({ ...change, message: input.message ?? what, author, key: idempotencyKey }))
  }
  return {
    list: async (path) => take(await asking.list({ path })),
    get: async (path, maxBytes) => Buffer.from(take(await asking.get({ path, maxBytes }))),
    clone: async (maxBytes) => Buffer.from(take(await asking.clone({ maxBytes }))),
    put: (path, bytes) => change(`Put ${path}`, { changes: [{ path, content: new Uint8Array(bytes) }] }),
    delete: (path) => change(`Delete ${path}`, { changes: [{ path, content: null }] }),
    rename: (from, to) => change(`Rename ${from} to ${to}`, { changes: [], move: { from, to } }),
    commit: (files) => change(`Change ${[...files.keys()].join(', ').slice(0, 60)}`, { changes: changesOf(files) }),
    makeFolder: noFolders,
    deleteFolder: noFolders,
    version: () => version,
    close: () => undefined,
  }
}

function changesOf(files: ReadonlyMap<string, Uint8Array | null>) {
  return [...files].map(([path, content]) => ({ path, content: content === null ? null : new Uint8Array(content) }))
}

type Asked<Call extends keyof typeof import('./git-thread.ts')> = Omit<
  Parameters<typeof import('./git-thread.ts')[Call]>[0],
  'port' | 'url' | 'ref'
>

/** Calls of the thread, whose requests are made here. */
function asker({ given, place }: TransferRun) {
  const { input, services, signal } = given
  const url = new URL(input.url)
  url.username = ''
  url.password = ''
  const account = Buffer.from(`${place.user}:${place.password}`).toString('base64')
  const headers: Record<string, string> = place.user === '' ? {} : { authorization: `Basic ${account}` }
  const ask = async <Call extends 'list' | 'get' | 'clone' | 'commit'>(call: Call, asked: Asked<Call>) => {
    const { port1, port2 } = new MessageChannel()
    serveHttp(port1, { fetch: services.fetch, signal, headers, timeoutMs: input.timeoutMs })
    const argument = { ...asked, port: port2, url: url.href.replace(/\/$/, ''), ref: input.ref ?? null }
    try {
      return await work(given, call, argument as never, { timeoutMs: maxMs, transfer: [port2] })
    } finally {
      port1.close()
    }
  }
  return {
    list: (asked: Asked<'list'>) => ask('list', asked),
    get: (asked: Asked<'get'>) => ask('get', asked),
    clone: (asked: Asked<'clone'>) => ask('clone', asked),
    commit: (asked: Asked<'commit'>) => ask('commit', asked),
  }
}

/** `Name <address>`, as git writes it. */
function authorOf(text: string | undefined): typeof ownAuthor {
  if (text === undefined) return ownAuthor
  const [, name = '', email = ''] = /^(.*?)\s*<(.*)>$/.exec(text) ?? []
  return { name, email }
}
