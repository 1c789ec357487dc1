import { createHash } from 'node:crypto'
import type { Static } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { needProperties, serverPlace } from '../server-properties.ts'
import type { FileServer, TransferRun } from './transfer.ts'
import { openFtp } from './transfer-ftp.ts'
import { openGit } from './transfer-git.ts'
import { TransferInput, TransferOutput, type TransferProtocol } from './transfer-properties.ts'
import { openS3 } from './transfer-s3.ts'
import { openSftp } from './transfer-sftp.ts'
import { openWebdav } from './transfer-webdav.ts'

const ports = { ftp: 21, ftpes: 21, ftps: 990, sftp: 22, http: 80, https: 443 }

const needed: Readonly<Record<TransferInput['operation'], readonly string[]>> = {
  list: ['path'],
  get: ['path'],
  put: ['path'],
  delete: ['path'],
  rename: ['path', 'to'],
  makeFolder: ['path'],
  deleteFolder: ['path'],
  command: ['command'],
  clone: [],
  commit: ['files'],
}

const openers: Readonly<Record<TransferProtocol, (run: TransferRun) => FileServer | Promise<FileServer>>> = {
  ftp: openFtp,
  ftpes: openFtp,
  ftps: openFtp,
  sftp: openSftp,
  webdav: openWebdav,
  s3: openS3,
  git: openGit,
}

const nothing: Static<typeof TransferOutput> = {
  files: [],
  uri: null,
  sizeBytes: null,
  sha256: null,
  commit: null,
  exitCode: null,
  stdout: '',
  stderr: '',
}

/** Source: RFC 959, 4217, 3659 (FTP); draft-ietf-secsh-filexfer-02 (SFTP); RFC 4918 (WebDAV); Amazon S3 API reference; Git's HTTP protocol */
export const ftp = definePlugin({
  id: 'ftp.transfer',
  name: 'File transfer',
  category: 'Protocol',
  description:
    'Lists, gets, puts, renames and deletes files over FTP, FTPS, SFTP, WebDAV, S3 or in a Git repository, which it also clones and commits to, and runs commands over SSH.',
  needs: 'A server that speaks one of these, and an account on it',
  input: TransferInput,
  output: TransferOutput,
  example: `name: fetch-orders
tasks:
  - name: fetch
    type: ftp.transfer
    properties:
      url: sftp://localhost:2222
      user: orders
      password: \${SFTP.password}
      operation: get
      path: orders.csv
`,
  async run(given: TaskRun<TransferInput>) {
    const { input, signal } = given
    needProperties(input, needed[input.operation])
    checkPaths(input)
    const place = serverPlace(input, ports)
    const open = openers[protocolOf(input, place.scheme)]
    const upload = input.operation === 'put' ? await uploadOf(given) : null
    let server: FileServer | null = null
    try {
      server = await open({ given, place })
      const told = await transfer(server, given, upload)
      return { ...nothing, ...told, commit: server.version?.() ?? null }
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      await server?.close()
    }
  },
})

function protocolOf({ protocol }: TransferInput, scheme: string): TransferProtocol {
  const overHttp = scheme === 'http' || scheme === 'https'
  const spoken = protocol ?? (overHttp ? undefined : (scheme as TransferProtocol))
  const isRight = overHttp === (spoken === 'webdav' || spoken === 's3' || spoken === 'git')
  if (spoken !== undefined && isRight) return spoken
  throw new TaskFailure(
    'refused',
    overHttp
      ? 'properties.protocol is needed for a URL that begins with http: webdav, s3 or git'
      : `properties.protocol ${spoken} does not go with a URL that begins with ${scheme}`,
  )
}

/** A line break in a path would be another command. */
function checkPaths({ path = '', to = '', files = {} }: TransferInput): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  if (/[\u0000-\u001f\u007f]/.test(`${path}${to}${Object.keys(files).join('')}`))
    throw new TaskFailure('refused', 'properties.path has a line break or another control character')
}

async function uploadOf({ input, services }: TaskRun<TransferInput>): Promise<Buffer> {
  const { file, text, maxBytes } = input
  if ((file === undefined) === (text === undefined))
    throw new TaskFailure('refused', 'properties.file or properties.text is needed for the operation put, and only one')
  const bytes = Buffer.from(file === undefined ? text! : await services.files.get(file))
  if (bytes.length <= maxBytes) return bytes
  throw new TaskFailure('refused', `What is put is larger than ${maxBytes} bytes`)
}

async function transfer(server: FileServer, { input, services }: TaskRun<TransferInput>, upload: Buffer | null) {
  const { operation, path = '', to = '', maxBytes } = input
  switch (operation) {
    case 'list':
      return { files: [...(await server.list(path))].sort((a, b) => (a.name < b.name ? -1 : 1)) }
    case 'get': {
      const bytes = await server.get(path, maxBytes)
      return { uri: (await services.files.put(bytes)).uri, ...sumOf(bytes) }
    }
    case 'put':
      await server.put(path, upload!)
      return sumOf(upload!)
    case 'rename':
      await server.rename(path, to)
      return {}
    case 'command': {
      if (server.command === undefined) throw new TaskFailure('refused', 'A command needs a server of sftp://')
      return await server.command(input.command!, maxBytes)
    }
    case 'clone': {
      if (server.clone === undefined) throw new TaskFailure('refused', 'The operation clone needs the protocol git')
      const bytes = await server.clone(maxBytes)
      return { uri: (await services.files.put(bytes)).uri, ...sumOf(bytes) }
    }
    case 'commit':
      if (server.commit === undefined) throw new TaskFailure('refused', 'The operation commit needs the protocol git')
      await server.commit(await committed(input, services))
      return {}
    case 'delete':
      await server.delete(path)
      return {}
    case 'makeFolder':
      await server.makeFolder(path)
      return {}
    case 'deleteFolder':
      await server.deleteFolder(path)
      return {}
  }
}

const fileUri = /^busbar:\/\/\/files\//

/** Texts as they stand, files of other tasks, and null for what goes. */
async function committed({ files = {}, maxBytes }: TransferInput, services: TaskRun<TransferInput>['services']) {
  const all = new Map<string, Uint8Array | null>()
  let sizeBytes = 0
  for (const [path, given] of Object.entries(files)) {
    const isFile = given !== null && fileUri.test(given)
    const content = given === null ? null : isFile ? await services.files.get(given) : Buffer.from(given)
    sizeBytes += content?.length ?? 0
    if (sizeBytes > maxBytes) throw new TaskFailure('refused', `What is committed is larger than ${maxBytes} bytes`)
    all.set(path, content)
  }
  return all
}

const sumOf = (bytes: Buffer) => ({
  sizeBytes: bytes.length,
  sha256: createHash('sha256').update(bytes).digest('hex'),
})
