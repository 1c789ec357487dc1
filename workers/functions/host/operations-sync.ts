import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { SYNC_DIGEST_BYTES, type SyncOperation, URL_PARTS } from '../sandbox/operations.ts'
import { unpack } from '../sandbox/wire.ts'
import { decoding, encodingName } from './operations-decode.ts'
import { OperationError } from './operations-error.ts'
import type { LogSink } from './operations-log.ts'

const MAX_URL_CHARS = 65_536
const MAX_RANDOM = 65_536

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
