import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { bringDebianPackages } from '../../ops/local/debian-packages.ts'
import { environment } from '../../schemas/config/environment.ts'
import type { Owner } from './servers.ts'

interface TestGit {
  /** Of the folder that holds the repositories; the account is `app`. */
  readonly url: string
  /** Runs git beside the server. @returns what it says */
  git(repository: string, ...args: string[]): string
  /** Makes a bare repository. */
  make(repository: string): void
  /** Refuses every push to it, as its owner would. */
  close(repository: string): void
}

const gitEnvironment = {
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
}

/** Bare repositories on disk, served over HTTP by git itself. */
export async function testGit(t: Owner, { password }: { readonly password: string }): Promise<TestGit> {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-git-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const program = await gitProgram()
  const server = createServer((request, response) => serve({ folder, password, program }, request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const git = (repository: string, ...args: string[]) =>
    execFileSync(program.path, args, { cwd: join(folder, repository), env: program.environment, encoding: 'utf8' })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    git,
    make(repository) {
      git('', 'init', '--quiet', '--bare', '--initial-branch=main', repository)
      git(repository, 'config', 'http.receivepack', 'true')
    },
    close: (repository) =>
      writeFileSync(join(folder, repository, 'hooks', 'pre-receive'), '#!/bin/sh\necho no >&2\nexit 1\n', {
        mode: 0o755,
      }),
  }
}

interface Program {
  readonly path: string
  readonly environment: Readonly<Record<string, string>>
}

/** That of the machine, else Debian's, unpacked beside the data. */
async function gitProgram(): Promise<Program> {
  const own = { ...gitEnvironment, PATH: environment().PATH ?? '/usr/bin:/bin' }
  if (spawnSync('git', ['--version'], { env: own }).status === 0) return { path: 'git', environment: own }
  const folder = environment().BUSBAR_DATA ?? resolve(import.meta.dirname, '../../.busbar')
  const packages = await bringDebianPackages({ folder, name: 'git', packages: ['git'] })
  const libraries = { ...packages.environment, GIT_EXEC_PATH: join(packages.root, 'usr/lib/git-core') }
  return { path: packages.binary('git'), environment: { ...gitEnvironment, ...libraries } }
}

interface Served {
  readonly folder: string
  readonly password: string
  readonly program: Program
}

/** Source: https://git-scm.com/docs/git-http-backend */
function serve({ folder, password, program }: Served, request: IncomingMessage, response: ServerResponse): void {
  const account = `Basic ${Buffer.from(`app:${password}`).toString('base64')}`
  if (request.headers.authorization !== account) {
    response.writeHead(401, { 'WWW-Authenticate': 'Basic realm="git"' }).end()
    return
  }
  const { pathname, search } = new URL(request.url!, 'http://localhost')
  const backend = spawn(program.path, ['http-backend'], {
    env: {
      ...program.environment,
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: request.method!,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      REMOTE_USER: 'app',
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  backend.stdin.on('error', () => undefined)
  request.pipe(backend.stdin)
  const parts: Buffer[] = []
  backend.stdout.on('data', (part) => parts.push(part))
  backend.on('close', () => {
    const all = Buffer.concat(parts)
    const end = all.indexOf('\r\n\r\n')
    const headers = all
      .subarray(0, end)
      .toString()
      .split('\r\n')
      .map((line) => line.split(': ') as [string, string])
    const status = Number(headers.find(([name]) => name === 'Status')?.[1].slice(0, 3) ?? 200)
    response.writeHead(status, Object.fromEntries(headers.filter(([name]) => name !== 'Status')))
    response.end(all.subarray(end + 4))
  })
}
