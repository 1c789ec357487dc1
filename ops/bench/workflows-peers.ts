import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { environment } from '../../schemas/config/environment.ts'
import { endProcess, freePort } from '../local/child.ts'
import { checkout } from '../settings.ts'

/** What workflows are compared with. */
export const peerPackages = {
  '@dbos-inc/dbos-sdk': '5.3.0',
  pg: '8.23.1',
  '@restatedev/restate-server': '1.7.12',
  '@restatedev/restate-sdk': '1.17.2',
} as const

/** Installs DBOS and Restate below the data folder, once. They are no dependencies of ours. @returns their folder */
export async function bringPeers(): Promise<string> {
  const data = resolve(checkout, environment().BUSBAR_DATA ?? '.busbar')
  const folder = join(data, 'bench', 'workflows-1')
  const complete = join(folder, 'complete')
  if (existsSync(complete)) return folder
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies: peerPackages }))
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: folder })
  writeFileSync(complete, '')
  return folder
}

export interface Restate {
  readonly pid: number
  /** Where services are called. */
  readonly url: string
  stop(): Promise<void>
}

/**
 * One Restate node with two partitions, as fits two cores, that knows the service. Its log is flushed to the disk before it answers, as it
 * comes.
 */
export async function startRestate(peers: string, folder: string, serviceUrl: string): Promise<Restate> {
  const platform = `${process.platform}-${process.arch}`
  const binary = join(peers, `node_modules/@restatedev/restate-server-${platform}/bin/restate-server`)
  const [ingress, admin, node] = [await freePort(), await freePort(), await freePort()]
  const child = spawn(binary, ['--base-dir', join(folder, 'restate'), '--log-filter', 'warn'], {
    stdio: ['ignore', 'ignore', 'ignore'],
    env: {
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
      RESTATE_DEFAULT_NUM_PARTITIONS: '2',
      DO_NOT_TRACK: '1',
    },
  })
  const stop = () => endProcess(child, [['SIGTERM', 5_000], ['SIGKILL', 2_000]]) // biome-ignore format: one step a pair
  for (let attempt = 0; ; attempt++) {
    const registered = await fetch(`http://127.0.0.1:${admin}/deployments`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ uri: serviceUrl }),
    }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (registered) return { pid: child.pid!, url: `http://127.0.0.1:${ingress}`, stop }
    if (attempt === 150 || child.exitCode !== null) throw new Error('Restate did not start')
    await new Promise((again) => setTimeout(again, 200))
  }
}
