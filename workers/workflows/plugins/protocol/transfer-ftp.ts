import { Readable, Writable } from 'node:stream'
import type { Client, FileInfo } from 'basic-ftp'
import { TaskFailure } from '../../plugin.ts'
import { tlsOptions } from '../server-properties.ts'
import { BoundedBytes, type FileEntry, type FileServer, partOf, type TransferRun } from './transfer.ts'

/** Opens an FTP server. Connections for data go to the address of the first one, whatever the server says. */
export async function openFtp({ given, place }: TransferRun): Promise<FileServer> {
  const { input, signal, services, idempotencyKey } = given
  const [{ Client }, [address]] = await Promise.all([import('basic-ftp'), services.net.resolve(place.host, signal)])
  const client = new Client(input.timeoutMs, { allowSeparateTransferHost: false })
  const stop = () => client.close()
  signal.addEventListener('abort', stop, { once: true })
  const close = () => {
    signal.removeEventListener('abort', stop)
    client.close()
  }
  const run = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw ftpFailure(error)
    }
  }
  try {
    await run(async () => {
      const options = { ...tlsOptions(input.tls ?? {}, place.host), host: place.host }
      if (place.scheme === 'ftps') await client.connectImplicitTLS(address!.address, place.port, options)
      else await client.connect(address!.address, place.port)
      if (place.scheme === 'ftpes') await client.useTLS(options)
      await client.login(place.user === '' ? 'anonymous' : place.user, place.password === '' ? 'guest' : place.password)
      await client.useDefaultSettings()
    })
  } catch (error) {
    close()
    throw error
  }
  return {
    list: (path) => run(async () => (await client.list(path)).map(entryOf)),
    get: (path, maxBytes) => run(() => download(client, path, maxBytes)),
    put: (path, bytes) =>
      run(async () => {
        const part = partOf(path, idempotencyKey)
        await client.uploadFrom(Readable.from([bytes]), part)
        await replace(client, part, path)
      }),
    delete: (path) => run(async () => void (await client.remove(path))),
    rename: (from, to) => run(() => replace(client, from, to)),
    makeFolder: (path) =>
      run(async () => {
        const before = await client.pwd()
        await client.ensureDir(path)
        await client.cd(before)
      }),
    deleteFolder: (path) => run(async () => void (await client.removeEmptyDir(path))),
    close,
  }
}

async function download(client: Client, path: string, maxBytes: number): Promise<Buffer> {
  const received = new BoundedBytes(maxBytes)
  const into = new Writable({
    write(chunk, _encoding, done) {
      try {
        received.add(chunk)
        done()
      } catch (error) {
        done(error as Error)
      }
    },
  })
  await client.downloadTo(into, path)
  return received.bytes
}

/** Some servers do not rename onto a file that is there. */
async function replace(client: Client, from: string, to: string): Promise<void> {
  try {
    await client.rename(from, to)
  } catch (error) {
    const { code } = error as { code?: number }
    if (code !== 550 && code !== 553) throw error
    await client.size(from)
    await client.remove(to)
    await client.rename(from, to)
  }
}

function entryOf({ name, size, modifiedAt, isDirectory, isFile, isSymbolicLink }: FileInfo): FileEntry {
  const kind = isFile ? 'file' : isDirectory ? 'folder' : isSymbolicLink ? 'link' : 'other'
  return { name, kind, sizeBytes: isFile ? size : null, modifiedAt: modifiedAt?.toISOString() ?? null }
}

/** 4yz can pass and 5yz cannot. Source: RFC 959 section 4.2 */
function ftpFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { code, message } = error as { code?: number | string; message: string }
  if (typeof code === 'number')
    return new TaskFailure(code < 500 ? 'unavailable' : 'refused', `The server refused it: ${message}`, error)
  if (/^Timeout/.test(message)) return new TaskFailure('timeout', 'The server does not answer', error)
  if (/CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO/.test(code ?? ''))
    return new TaskFailure('refused', `TLS is not possible: ${message}`, error)
  if (/^E[A-Z]+$/.test(code ?? '') || /closed|disconnected/i.test(message))
    return new TaskFailure('unavailable', `The connection broke: ${code ?? message}`, error)
  return new TaskFailure('refused', message, error)
}
