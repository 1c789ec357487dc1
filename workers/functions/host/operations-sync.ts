import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { SYNC_DIGEST_BYTES, type SyncOperation, URL_PARTS } from '../sandbox/operations.ts'
import { unpack } from '../sandbox/wire.ts'
import type { LogSink } from './operations-log.ts'

/** What an operation refuses; the guest throws it under this name. */
export class OperationError extends Error {
  constructor(name: 'TypeError' | 'RangeError' | (string & {}), message: string) {
    super(message)
    this.name = name
  }
}

/** `'!'` + the error as the guest reads it. Nothing of the host but a message meant for guests passes. */
export function refusal(error: unknown): string {
  if (error instanceof OperationError) return `!${JSON.stringify({ name: error.name, message: error.message })}`
  return `!${JSON.stringify({ name: 'OperationError', message: 'The operation failed' })}`
}

const MAX_URL_CHARS = 65_536
const MAX_RANDOM = 65_536
const MAX_DECODERS = 64

type Handler = (argument: string) => string

/** The synchronous operations of one isolate. */
export function syncOperations(log: LogSink): Readonly<Record<SyncOperation, Handler>> {
  return {
    'url-parse': parseUrl,
    'url-set': setUrlPart,
    decode: decoding(),
    encoding: encodingName,
    random,
    uuid: () => randomUUID(),
    now: () => `${Math.floor(performance.now() * 10) / 10}`,
    digest,
    log: (argument) => {
      const { head, rest } = unpack<readonly unknown[]>(argument)
      log.write(String(head[0]), String(head[1]), rest)
      return ''
    },
  }
}

const urlText = (url: URL): string => URL_PARTS.map((part) => url[part]).join('\n')

function parseUrl(argument: string): string {
  const [input, base] = JSON.parse(argument) as [string, string | null]
  if (input.length > MAX_URL_CHARS) throw new OperationError('TypeError', 'Invalid URL: it is too long')
  const url = URL.parse(input, base ?? undefined)
  if (url === null) throw new OperationError('TypeError', `Invalid URL: ${JSON.stringify(input.slice(0, 200))}`)
  return urlText(url)
}

const SETTABLE: ReadonlySet<string> = new Set(URL_PARTS.filter((part) => part !== 'origin'))

function setUrlPart(argument: string): string {
  const [href, part, value] = JSON.parse(argument) as [string, 'href', string]
  if (!SETTABLE.has(part)) throw new OperationError('TypeError', 'No such part of a URL')
  if (value.length > MAX_URL_CHARS) throw new OperationError('TypeError', 'Invalid URL: it is too long')
  const url = new URL(href)
  try {
    url[part] = value
  } catch {
    throw new OperationError('TypeError', 'Invalid URL')
  }
  return urlText(url)
}

function decoding(): Handler {
  const streams = new Map<number, TextDecoder>()
  return (argument) => {
    const { head, rest } = unpack<[string, boolean, boolean, number, boolean]>(argument)
    const [label, fatal, ignoreBOM, id, stream] = head
    const decoder = streams.get(id) ?? decoderFor(label, fatal, ignoreBOM)
    if (stream && !streams.has(id)) {
      if (streams.size >= MAX_DECODERS)
        throw new OperationError('RangeError', `More than ${MAX_DECODERS} streaming decoders are open`)
      streams.set(id, decoder)
    }
    if (!stream) streams.delete(id)
    try {
      return decoder.decode(Buffer.from(rest, 'latin1'), { stream })
    } catch {
      streams.delete(id)
      throw new OperationError('TypeError', 'The encoded data was not valid')
    }
  }
}

function decoderFor(label: string, fatal: boolean, ignoreBOM: boolean): TextDecoder {
  try {
    return new TextDecoder(label, { fatal, ignoreBOM })
  } catch {
    throw new OperationError('RangeError', `No such encoding: ${JSON.stringify(String(label).slice(0, 50))}`)
  }
}

const encodingName = (label: string): string => decoderFor(label, false, false).encoding

function random(argument: string): string {
  const count = Number(argument)
  if (!(count >= 0 && count <= MAX_RANDOM))
    throw new OperationError('QuotaExceededError', 'Too many random bytes at once')
  return randomBytes(count).toString('latin1')
}

const DIGESTS: Readonly<Record<string, string>> = {
  'SHA-1': 'sha1',
  'SHA-256': 'sha256',
  'SHA-384': 'sha384',
  'SHA-512': 'sha512',
}

function digest(argument: string): string {
  const { head, rest } = unpack<[string]>(argument)
  const name = DIGESTS[head[0]]
  if (name === undefined || rest.length > SYNC_DIGEST_BYTES)
    throw new OperationError('NotSupportedError', 'Unrecognized algorithm name')
  return createHash(name).update(rest, 'latin1').digest().toString('latin1')
}
