import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CareFailure, refuse } from '../care-failure.ts'
import { keepGood, restartWithParameters } from '../parameters/postgres-parameters.ts'
import type { NodeControl, PostgresNode } from '../postgres-node.ts'
import { withSession } from '../postgres-session.ts'

/** Libraries the platform loads into servers on request. */
export type PreloadLibrary = 'pg_stat_statements' | 'pgaudit'

/** Whether the server's installation has the library. */
export async function hasLibrary(node: PostgresNode, library: PreloadLibrary): Promise<boolean> {
  const folder = await withSession(node, async (client) => {
    const { rows } = await client.query<{ folder: string }>(
      "select setting as folder from pg_config where name = 'PKGLIBDIR'",
    )
    return rows[0]!.folder
  })
  return ['so', 'dylib'].some((ending) => existsSync(join(folder, `${library}.${ending}`)))
}

/**
 * Makes a node load a library at its start and restarts it when it does not yet; with a way back when it does not come up so.
 * For an instance of several servers: the standbys first, then the primary.
 *
 * @throws {CareFailure} `refused` (424) when the installation does not have the library; `failed` when the server does not
 *   start with it (it runs without).
 */
export async function preloadLibrary(control: NodeControl, node: PostgresNode, library: PreloadLibrary): Promise<void> {
  if (!(await hasLibrary(node, library))) {
    refuse(`The PostgreSQL installation has no ${library}: install the package that brings it and try again.`, {
      status: 424,
    })
  }
  const loaded = await withSession(node, async (client) => {
    const { rows } = await client.query<{ list: string }>("select current_setting('shared_preload_libraries') as list")
    const list = rows[0]!.list.split(',').map((name) => name.trim()).filter(Boolean) // biome-ignore format: one chain
    if (list.includes(library)) return true
    await keepGood(node)
    const names = [...list, library].map((name) => client.escapeLiteral(name)).join(', ')
    await client.query(`alter system set shared_preload_libraries = ${names}`)
    return false
  })
  if (loaded) return
  const { applied, reason } = await restartWithParameters(control, node)
  if (!applied) throw new CareFailure('failed', `The server does not start with ${library}: ${reason}.`)
}

/** Makes the extension in the instance's database. Only on the primary; the standbys get it from there. */
export async function createExtension(node: PostgresNode, library: PreloadLibrary): Promise<void> {
  await withSession(node, async (client) => {
    await client.query(`create extension if not exists ${client.escapeIdentifier(library)} schema public`)
  })
}
