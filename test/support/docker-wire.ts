import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { extract, pack } from 'tar-stream'
import type { Owner } from './servers.ts'

/** What a container does in place of running. */
export interface Behaviour {
  readonly stdout?: string
  readonly stderr?: string
  readonly exitCode?: number
  /** Files in its folder afterwards. */
  readonly left?: Readonly<Record<string, string>>
  /** It goes on until it is removed. */
  readonly endless?: boolean
}

export interface TestContainer {
  readonly id: string
  readonly name: string
  readonly settings: Record<string, unknown>
  /** What it was given, by path, with its owner. */
  readonly files: Map<string, string>
  isStarted: boolean
}

export interface TestDocker {
  readonly path: string
  readonly containers: Map<string, TestContainer>
  readonly pulled: string[]
  readonly sockets: Set<Socket>
  behaviour: Behaviour
  /** Each container that was ever made. */
  readonly made: TestContainer[]
}

/**
 * An engine that runs nothing, but knows what it may be asked: anything else is answered with 400.
 * Source: https://docs.docker.com/reference/api/engine/version/v1.41
 */
export async function testDocker(t: Owner): Promise<TestDocker> {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-docker-'))
  const docker: TestDocker = {
    path: join(folder, 'engine.sock'),
    containers: new Map(),
    pulled: [],
    sockets: new Set(),
    behaviour: {},
    made: [],
  }
  const server = createServer((request, response) => {
    answer(docker, request, response).catch((error) => json(response, 500, { message: String(error) }))
  })
  server.on('connection', (socket) => {
    docker.sockets.add(socket)
    socket.on('close', () => docker.sockets.delete(socket))
  })
  await new Promise<void>((done) => server.listen(docker.path, done))
  t.teardown(() => {
    for (const socket of docker.sockets) socket.destroy()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return docker
}

const known = ['alpine:3', 'python:3-alpine', 'psql:16']

async function answer(docker: TestDocker, request: IncomingMessage, response: ServerResponse): Promise<ServerResponse> {
  const { pathname, searchParams } = new URL(request.url!, 'http://engine')
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  const body = Buffer.concat(parts)
  const [, version, kind, name = '', operation = ''] = pathname.split('/')
  if (version !== 'v1.41') return json(response, 400, { message: 'client version is not supported' })
  if (kind === 'images' && name === 'create') return pull(docker, searchParams, response)
  if (kind !== 'containers') return json(response, 404, { message: 'page not found' })
  if (name === 'create') return create(docker, searchParams.get('name')!, body, response)
  const container = docker.containers.get(name) ?? [...docker.containers.values()].find(({ id }) => id === name)
  if (container === undefined) return json(response, 404, { message: `No such container: ${name}` })
  const { stdout = '', stderr = '', exitCode = 0, left = {}, endless = false } = docker.behaviour
  switch (`${request.method} ${operation}`) {
    case 'DELETE ':
      docker.containers.delete(container.name)
      return response.writeHead(204).end()
    case 'GET json':
      return json(response, 200, { Id: container.id, Config: container.settings })
    case 'PUT archive':
      if (request.headers['content-type'] !== 'application/x-tar') return json(response, 400, { message: 'no tar' })
      await unpacked(body, container.files)
      return json(response, 200, {})
    case 'POST start':
      container.isStarted = true
      return response.writeHead(204).end()
    case 'POST wait':
      if (!container.isStarted) return json(response, 400, { message: 'not started' })
      return endless ? response : json(response, 200, { StatusCode: exitCode })
    case 'GET logs':
      response.writeHead(200, { 'Content-Type': 'application/vnd.docker.multiplexed-stream' })
      response.write(framed(1, stdout))
      response.write(framed(2, stderr))
      return endless ? response : response.end()
    case 'GET archive': {
      const tar = pack()
      tar.entry({ name: 'work/', type: 'directory' })
      for (const [path, text] of Object.entries(left)) tar.entry({ name: `work/${path}` }, text)
      tar.finalize()
      response.writeHead(200, { 'Content-Type': 'application/x-tar' })
      return tar.pipe(response)
    }
    default:
      return json(response, 400, { message: `nothing is known of ${request.method} ${pathname}` })
  }
}

function pull(docker: TestDocker, asked: URLSearchParams, response: ServerResponse): ServerResponse {
  const image = [asked.get('fromImage'), asked.get('tag')].filter((each) => each !== null).join(':')
  response.writeHead(200, { 'Content-Type': 'application/json' })
  response.write('{"status":"Pulling"}\n')
  docker.pulled.push(image)
  return response.end(image.startsWith('none') ? '{"error":"manifest unknown"}\n' : '{"status":"Downloaded"}\n')
}

function create(docker: TestDocker, name: string, body: Buffer, response: ServerResponse): ServerResponse {
  const settings = JSON.parse(body.toString()) as Record<string, unknown>
  const image = String(settings.Image)
  const isThere = known.includes(image) || docker.pulled.some((each) => each === image || each === `${image}:latest`)
  if (!isThere) return json(response, 404, { message: `No such image: ${image}` })
  if (docker.containers.has(name)) return json(response, 409, { message: 'The name is in use' })
  const container = { id: randomUUID(), name, settings, files: new Map<string, string>(), isStarted: false }
  docker.containers.set(name, container)
  docker.made.push(container)
  return json(response, 201, { Id: container.id, Warnings: [] })
}

async function unpacked(bytes: Buffer, files: Map<string, string>): Promise<void> {
  const tar = extract()
  tar.end(bytes)
  for await (const entry of tar) {
    const parts: Buffer[] = []
    for await (const part of entry) parts.push(part as Buffer)
    files.set(`${entry.header.name}:${entry.header.uid}`, Buffer.concat(parts).toString())
  }
}

/** In two halves, as it may come. */
function framed(stream: number, text: string): Buffer {
  const halves = [text.slice(0, 2), text.slice(2)].filter((half) => half !== '')
  return Buffer.concat(
    halves.map((half) => {
      const head = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0])
      head.writeUInt32BE(Buffer.byteLength(half), 4)
      return Buffer.concat([head, Buffer.from(half)])
    }),
  )
}

function json(response: ServerResponse, status: number, body: unknown): ServerResponse {
  return response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}
