import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { environment } from '../../schemas/config/environment.ts'
import { checkout } from '../settings.ts'

/** What the peer is made of; the driver and graphql are the ones we use. Its aggregates are a plugin of the same authors. */
export const peerPackages = {
  postgraphile: '5.1.5',
  '@graphile/pg-aggregates': '0.2.0-rc.2',
  graphql: '16.15.0',
  pg: '8.23.1',
} as const

/** Installs PostGraphile below the data folder, once. It is no dependency of ours. @returns its folder */
export async function bringPostgraphile(): Promise<string> {
  const data = resolve(checkout, environment().BUSBAR_DATA ?? '.busbar')
  const folder = join(data, 'bench', `postgraphile-${peerPackages.postgraphile}`)
  const complete = join(folder, 'complete')
  if (existsSync(complete)) return folder
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies: peerPackages }))
  // The plugin names release candidates as its peers.
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', '--legacy-peer-deps'], { cwd: folder })
  writeFileSync(complete, '')
  return folder
}
