import { TaskFailure, type TaskFiles } from '../../plugin.ts'
import type { HttpInput } from './http-properties.ts'

export interface ReadAnswer {
  readonly body: unknown
  readonly uri: string | null
}

interface ReadOptions {
  readonly type: Exclude<HttpInput['responseType'], 'events'>
  readonly files: TaskFiles
}

/** The body in the form that was asked for. @throws {TaskFailure} `refused` when it is not JSON though it has to be */
export async function readAnswer(
  bytes: Uint8Array,
  contentType: string | null,
  { type, files }: ReadOptions,
): Promise<ReadAnswer> {
  if (type === 'file') return await asFile(bytes, files)
  if (type === 'base64') return inline(Buffer.from(bytes).toString('base64'))
  if (bytes.length === 0) return inline(type === 'text' ? '' : null)
  const text = textOf(bytes, contentType)
  if (type === 'text') return inline(text)
  if (type === 'json') return inline(jsonOf(text))
  return (await byContentType(bytes, text, contentType)) ?? (await asFile(bytes, files))
}

/** The beginning of a body that is told to people. */
export function toldBody(bytes: Uint8Array, contentType: string | null): string {
  const kind = kindOf(mediaType(contentType))
  return kind === 'binary'
    ? ''
    : textOf(bytes.subarray(0, 2_000), contentType).replace(/\s+/g, ' ').trim().slice(0, 500)
}

/** Null for what is best kept as a file. */
async function byContentType(bytes: Uint8Array, text: string, contentType: string | null): Promise<ReadAnswer | null> {
  const kind = kindOf(mediaType(contentType))
  if (kind === 'text') return inline(text)
  if (kind === 'json') return inline(jsonElse(text, text))
  if (kind === 'lines') {
    const lines = text.split('\n').filter((line) => line.trim() !== '')
    return inline(jsonElse(`[${lines.join(',')}]`, text))
  }
  if (kind === 'binary' || !isUtf8(bytes)) return null
  return inline(jsonElse(text, text))
}

function kindOf(type: string): 'json' | 'lines' | 'text' | 'binary' | 'unknown' {
  if (type === '') return 'unknown'
  if (/^(application|text)\/(.+\+)?json$/.test(type)) return 'json'
  if (/^application\/(x-)?(ndjson|jsonl|json-lines|jsonlines)$/.test(type)) return 'lines'
  if (/^text\/|[/+](xml|yaml|x-yaml|toml|javascript|x-www-form-urlencoded|graphql|sql)$/.test(type)) return 'text'
  return 'binary'
}

function mediaType(contentType: string | null): string {
  return (contentType ?? '').split(';')[0]!.trim().toLowerCase()
}

/** As the content type says, else UTF-8. */
function textOf(bytes: Uint8Array, contentType: string | null): string {
  const [, charset = 'utf-8'] = /;\s*charset="?([\w.:-]+)/i.exec(contentType ?? '') ?? []
  try {
    return new TextDecoder(charset).decode(bytes)
  } catch {
    return new TextDecoder().decode(bytes)
  }
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return true
  } catch {
    return false
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new TaskFailure('refused', `The answer is no JSON: ${text.slice(0, 200)}`, cause)
  }
}

function jsonElse(text: string, otherwise: unknown): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return otherwise
  }
}

async function asFile(bytes: Uint8Array, files: TaskFiles): Promise<ReadAnswer> {
  return { body: null, uri: (await files.put(bytes)).uri }
}

function inline(body: unknown): ReadAnswer {
  return { body, uri: null }
}
