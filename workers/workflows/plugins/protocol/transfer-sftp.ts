import { createHash, timingSafeEqual } from 'node:crypto'
import type { Client, ClientChannel, FileEntryWithStats, SFTPWrapper } from 'ssh2'
import { TaskFailure } from '../../plugin.ts'
import {
  BoundedBytes,
  type CommandResult,
  type FileEntry,
  type FileServer,
  partOf,
  type TransferRun,
} from './transfer.ts'

/** Opens a server over SSH. */
export async function openSftp(run: TransferRun): Promise<FileServer> {
  const { signal, idempotencyKey } = run.given
  const { client, broken } = await connect(run)
  const close = () => {
    client.end()
    client.destroy()
  }
  const guard = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await Promise.race([work, broken])
    } catch (error) {
      work.catch(() => undefined)
      signal.throwIfAborted()
      throw sftpFailure(error)
    }
  }
  let opened: Promise<SFTPWrapper> | null = null
  const files = () => {
    opened ??= guard(asking<SFTPWrapper>((done) => client.sftp(done)))
    return opened
  }
  const on = async <T>(work: (sftp: SFTPWrapper) => Promise<T>): Promise<T> => {
    const sftp = await files()
    return await guard(work(sftp))
  }
  return {
    list: (path) =>
      on(async (sftp) => (await asking<FileEntryWithStats[]>((done) => sftp.readdir(path, done))).map(entryOf)),
    get: (path, maxBytes) => on((sftp) => download(sftp, path, maxBytes)),
    put: (path, bytes) =>
      on(async (sftp) => {
        const part = partOf(path, idempotencyKey)
        await asking<void>((done) => sftp.writeFile(part, bytes, done))
        await replace(sftp, part, path)
      }),
    delete: (path) => on((sftp) => asking<void>((done) => sftp.unlink(path, done))),
    rename: (from, to) => on((sftp) => replace(sftp, from, to)),
    makeFolder: (path) => on((sftp) => makeFolders(sftp, path)),
    deleteFolder: (path) => on((sftp) => asking<void>((done) => sftp.rmdir(path, done))),
    command: (text, maxBytes) => guard(execute(client, text, maxBytes)),
    close,
  }
}

async function connect({ given, place }: TransferRun): Promise<{ client: Client; broken: Promise<never> }> {
  const { input, signal, services, log } = given
  const { default: ssh } = await import('ssh2')
  const socket = await services.net.connect({ host: place.host, port: place.port, signal })
  const client = new ssh.Client()
  const { promise: broken, reject } = Promise.withResolvers<never>()
  broken.catch(() => undefined)
  const ready = new Promise<void>((resolve) => client.once('ready', resolve))
  client.on('error', reject)
  client.on('close', () => reject(new TaskFailure('unavailable', 'The server closed the connection')))
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  if (input.hostKey === undefined) log.warn('properties.hostKey is not given: any server is taken for the right one')
  try {
    client.connect({
      sock: socket,
      username: place.user,
      ...(input.privateKey === undefined ? { password: place.password } : { privateKey: input.privateKey }),
      ...(input.passphrase !== undefined && { passphrase: input.passphrase }),
      hostVerifier: (key: Buffer) => input.hostKey === undefined || isSame(fingerprintOf(key), input.hostKey),
      readyTimeout: input.timeoutMs,
      keepaliveInterval: Math.max(1_000, Math.floor(input.timeoutMs / 2)),
      keepaliveCountMax: 2,
    })
    await Promise.race([ready, broken])
    return { client, broken }
  } catch (error) {
    client.destroy()
    socket.destroy()
    signal.throwIfAborted()
    throw sftpFailure(error)
  }
}

const fingerprintOf = (key: Buffer): string => `SHA256:${createHash('sha256').update(key).digest('base64')}`

function isSame(a: string, b: string): boolean {
  const [left, right] = [a, b].map((each) => Buffer.from(each.replace(/=$/, ''))) as [Buffer, Buffer]
  return left.length === right.length && timingSafeEqual(left, right)
}

const readBytes = 32_768
const readsAtOnce = 16

/** Several reads under way at a time, since each waits for the server. */
async function download(sftp: SFTPWrapper, path: string, maxBytes: number): Promise<Buffer> {
  const handle = await asking<Buffer>((done) => sftp.open(path, 'r', done))
  try {
    const { size } = await asking<{ size: number }>((done) => sftp.fstat(handle, done))
    const received = new BoundedBytes(maxBytes)
    // What has no size, or has grown, is read to its end.
    for (let at = 0; ; at += readBytes * readsAtOnce) {
      const places = Array.from({ length: at < size ? readsAtOnce : 1 }, (_, n) => at + n * readBytes)
      const parts = await Promise.all(places.map((place) => readPart(sftp, handle, place)))
      for (const part of parts) received.add(part)
      if (parts.some((part) => part.length < readBytes)) return received.bytes
    }
  } finally {
    await asking<void>((done) => sftp.close(handle, done)).catch(() => undefined)
  }
}

/** Shorter only at the end of the file. */
async function readPart(sftp: SFTPWrapper, handle: Buffer, place: number): Promise<Buffer> {
  const part = Buffer.alloc(readBytes)
  let length = 0
  while (length < readBytes) {
    const read = await asking<number>((done) =>
      sftp.read(handle, part, length, readBytes - length, place + length, done),
    )
    if (read === 0) break
    length += read
  }
  return part.subarray(0, length)
}

/** OpenSSH has a rename that replaces; others get rid of what is there first. */
async function replace(sftp: SFTPWrapper, from: string, to: string): Promise<void> {
  try {
    await asking<void>((done) => sftp.ext_openssh_rename(from, to, done))
  } catch (error) {
    if (!/not supported/i.test((error as Error).message)) throw error
    await asking<unknown>((done) => sftp.stat(from, done))
    await asking<void>((done) => sftp.unlink(to, done)).catch(() => undefined)
    await asking<void>((done) => sftp.rename(from, to, done))
  }
}

async function makeFolders(sftp: SFTPWrapper, path: string): Promise<void> {
  const parts = path.split('/').filter((part) => part !== '')
  for (let count = 1; count <= parts.length; count++) {
    const folder = `${path.startsWith('/') ? '/' : ''}${parts.slice(0, count).join('/')}`
    try {
      await asking<void>((done) => sftp.mkdir(folder, done))
    } catch (error) {
      const there = await asking<{ isDirectory(): boolean }>((done) => sftp.stat(folder, done)).catch(() => null)
      if (there?.isDirectory() !== true) throw error
    }
  }
}

function execute(client: Client, text: string, maxBytes: number): Promise<CommandResult> {
  const [stdout, stderr] = [new BoundedBytes(maxBytes), new BoundedBytes(maxBytes)]
  const { promise, resolve, reject } = Promise.withResolvers<CommandResult>()
  const into = (bytes: BoundedBytes) => (chunk: Buffer) => {
    try {
      bytes.add(chunk)
    } catch (error) {
      reject(error)
    }
  }
  // Listened to at once: all of it may have arrived already.
  client.exec(text, (error, channel: ClientChannel) => {
    if (error) return reject(error)
    let exitCode: number | null = null
    channel.on('data', into(stdout)).stderr.on('data', into(stderr))
    channel.on('exit', (code: number | null) => {
      exitCode = code
    })
    channel.on('close', () => resolve({ exitCode, stdout: `${stdout.bytes}`, stderr: `${stderr.bytes}` }))
  })
  return promise
}

function entryOf({ filename, attrs }: FileEntryWithStats): FileEntry {
  const kind = attrs.isFile() ? 'file' : attrs.isDirectory() ? 'folder' : attrs.isSymbolicLink() ? 'link' : 'other'
  return {
    name: filename,
    kind,
    sizeBytes: kind === 'file' ? attrs.size : null,
    modifiedAt: new Date(attrs.mtime * 1_000).toISOString(),
  }
}

function asking<T>(start: (done: (error: Error | null | undefined, value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => start((error, value) => (error ? reject(error) : resolve(value))))
}

/** Source: draft-ietf-secsh-filexfer-02 section 7: 6 and 7 are connections that are gone. */
function sftpFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { level, code, message } = error as { level?: string; code?: number | string; message: string }
  if (level === 'client-timeout' || /timed out|timeout/i.test(message))
    return new TaskFailure('timeout', 'The server does not answer', error)
  if (level === 'client-authentication')
    return new TaskFailure('refused', 'The server takes neither password nor key', error)
  if (/verification failed/.test(message))
    return new TaskFailure('refused', 'The server has another key than properties.hostKey', error)
  if (
    code === 6 ||
    code === 7 ||
    level === 'client-socket' ||
    /Connection lost|Not connected|No response/.test(message)
  )
    return new TaskFailure('unavailable', `The connection broke: ${message}`, error)
  return new TaskFailure('refused', `The server refused it: ${message}`, error)
}
