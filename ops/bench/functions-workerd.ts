import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { environment } from '../../schemas/config/environment.ts'
import { endProcess, freePort } from '../local/child.ts'
import { checkout } from '../settings.ts'

/** What functions are compared with. */
export const workerdVersion = '1.20261117.1'

/** Installs workerd below the data folder, once. It is no dependency of ours. @returns its program */
export async function bringWorkerd(): Promise<string> {
  const data = resolve(checkout, environment().BUSBAR_DATA ?? '.busbar')
  const folder = join(data, 'bench', `workerd-${workerdVersion}`)
  const binary = join(
    folder,
    `node_modules/@cloudflare/workerd-${process.platform}-${process.arch === 'x64' ? '64' : process.arch}/bin/workerd`,
  )
  if (existsSync(binary)) return binary
  mkdirSync(folder, { recursive: true })
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ private: true, dependencies: { workerd: workerdVersion } }),
  )
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: folder })
  return binary
}

export interface Workerd {
  readonly pid: number
  /** Of each worker, in order. */
  readonly urls: readonly string[]
  stop(): Promise<void>
}

/** One process that serves each handler on a port of its own, as JSON in and JSON out. Resolves when the first one answers. */
export async function startWorkerd(binary: string, folder: string, handlers: readonly string[]): Promise<Workerd> {
  const free = new Set<number>()
  while (free.size < handlers.length) free.add(await freePort())
  const ports = [...free]
  const services = handlers.map((handler, n) => {
    const code = `const handler = ${handler}
export default { async fetch(request) { return Response.json(await handler(await request.json())) } }`
    return `(name = "w${n}", worker = (compatibilityDate = "2026-01-01", modules = [(name = "w.js", esModule = ${JSON.stringify(code)})]))`
  })
  const sockets = ports.map(
    (port, n) => `(name = "s${n}", address = "127.0.0.1:${port}", http = (), service = "w${n}")`,
  )
  const config = join(folder, `workerd-${ports[0]}.capnp`)
  writeFileSync(
    config,
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [${services.join(',\n')}], sockets = [${sockets.join(',\n')}]);\n`,
  )
  const child = spawn(binary, ['serve', config], { stdio: ['ignore', 'ignore', 'inherit'], env: {} })
  const stop = () => endProcess(child, [['SIGTERM', 2_000], ['SIGKILL', 2_000]]) // biome-ignore format: one step a pair
  const urls = ports.map((port) => `http://127.0.0.1:${port}/`)
  for (let attempt = 0; ; attempt++) {
    const answered = await fetch(urls[0]!, { method: 'POST', body: '{}' }).then(
      (response) => response.ok,
      () => false,
    )
    if (answered) return { pid: child.pid!, urls, stop }
    if (attempt > 200 || child.exitCode !== null) throw new Error('workerd did not start')
    await new Promise((again) => setTimeout(again, 50))
  }
}
