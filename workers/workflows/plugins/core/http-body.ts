import { TaskFailure, type TaskFiles } from '../../plugin.ts'
import type { HttpInput } from './http-properties.ts'

export interface SentBody {
  readonly body: string | Uint8Array<ArrayBuffer> | FormData | URLSearchParams
  /** Null where the body brings its own. */
  readonly contentType: string | null
}

/** What is sent; null for nothing. @throws {TaskFailure} `refused` for a body that does not fit its type */
export async function sentBody(
  { body, bodyType }: Pick<HttpInput, 'body' | 'bodyType'>,
  files: TaskFiles,
): Promise<SentBody | null> {
  if (body === undefined) return null
  return await encode[bodyType](body, files)
}

const text = (body: string): SentBody => ({ body, contentType: 'text/plain; charset=utf-8' })
const json = (body: unknown): SentBody => ({ body: JSON.stringify(body), contentType: 'application/json' })

const encode: Readonly<
  Record<HttpInput['bodyType'], (body: unknown, files: TaskFiles) => SentBody | Promise<SentBody>>
> = {
  auto: (body) => (typeof body === 'string' ? text(body) : json(body)),
  json,
  text: (body) => text(typeof body === 'string' ? body : JSON.stringify(body)),
  base64: (body) => binary(fromBase64(body)),
  file: async (body, files) => binary(Uint8Array.from(await files.get(String(body)))),
  form(body) {
    const form = new URLSearchParams()
    for (const [name, value] of entriesOf(body, 'form')) form.append(name, textOf(value))
    return { body: form, contentType: null }
  },
  async multipart(body, files) {
    const form = new FormData()
    for (const [name, value] of entriesOf(body, 'multipart')) {
      const part = await partOf(name, value, files)
      if (typeof part === 'string') form.append(name, part)
      else form.append(name, part.blob, part.filename)
    }
    return { body: form, contentType: null }
  },
}

/** Adds parameters to those that the URL has. @throws {TaskFailure} `refused` for what is no URL */
export function withQuery(url: string, query: Readonly<Record<string, unknown>>): URL {
  const parsed = URL.parse(url)
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw new TaskFailure('refused', 'properties.url is no URL that begins with http:// or https://')
  }
  for (const [name, value] of entriesOf(query, 'query')) parsed.searchParams.append(name, textOf(value))
  return parsed
}

/** One entry a value: a list is several of the same name, null none. */
function entriesOf(fields: unknown, what: string): readonly (readonly [string, unknown])[] {
  if (fields === null || typeof fields !== 'object' || Array.isArray(fields)) {
    throw new TaskFailure('refused', `properties.body is no object, which it has to be for ${what}`)
  }
  return Object.entries(fields).flatMap(([name, value]) => {
    const values: readonly unknown[] = Array.isArray(value) ? value : [value]
    return values.filter((each) => each !== null && each !== undefined).map((each) => [name, each] as const)
  })
}

function textOf(value: unknown): string {
  return value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value)
}

async function partOf(name: string, value: unknown, files: TaskFiles) {
  if (value === null || typeof value !== 'object' || !Object.hasOwn(value, 'file')) return textOf(value)
  const { file, filename, contentType } = value as { file: unknown; filename?: unknown; contentType?: unknown }
  const bytes = Uint8Array.from(await files.get(String(file)))
  const type = contentType === undefined ? 'application/octet-stream' : String(contentType)
  return { blob: new Blob([bytes], { type }), filename: filename === undefined ? name : String(filename) }
}

function binary(body: Uint8Array<ArrayBuffer>): SentBody {
  return { body, contentType: 'application/octet-stream' }
}

function fromBase64(body: unknown): Uint8Array<ArrayBuffer> {
  if (typeof body === 'string' && /^[A-Za-z0-9+/_-]*={0,2}$/.test(body)) {
    return Uint8Array.from(Buffer.from(body, 'base64'))
  }
  throw new TaskFailure('refused', 'properties.body is not in base64')
}
