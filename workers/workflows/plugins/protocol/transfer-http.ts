import { TaskFailure } from '../../plugin.ts'
import type { TransferRun } from './transfer.ts'

/** One request to a server that holds files over HTTP. @throws {TaskFailure} when it does not answer with a yes */
export async function fileRequest(
  { given }: TransferRun,
  url: string,
  request: {
    readonly method: string
    readonly headers: Readonly<Record<string, string>>
    readonly body?: Uint8Array | string
  },
): Promise<Response> {
  const { services, signal, input } = given
  const late = AbortSignal.timeout(input.timeoutMs)
  try {
    const { body, ...rest } = request
    const init = {
      ...rest,
      ...(body !== undefined && { body: body as BodyInit }),
      signal: AbortSignal.any([signal, late]),
    }
    const response = await services.fetch(url, { ...init, redirect: 'error' })
    if (response.ok) return response
    const passes =
      response.status === 408 || response.status === 423 || response.status === 429 || response.status >= 500
    const told = (await response.text())
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
      .trim()
      .slice(0, 200)
    throw new TaskFailure(passes ? 'unavailable' : 'refused', `The server answered ${response.status}: ${told}`)
  } catch (error) {
    if (late.aborted && !signal.aborted) throw new TaskFailure('timeout', 'The server does not answer', error)
    throw error
  }
}

/** @throws {TaskFailure} `refused` when it is larger */
export async function boundedBody(response: Response, maxBytes: number): Promise<Buffer> {
  const bytes = Buffer.from(await response.arrayBuffer())
  if (bytes.length <= maxBytes) return bytes
  throw new TaskFailure('refused', `What the server sends is larger than ${maxBytes} bytes`)
}

/** The elements of an answer in XML; those named are always lists. @throws {TaskFailure} `refused` for what is no XML */
export async function xmlBody(response: Response, lists: readonly string[]): Promise<Record<string, unknown>> {
  const { XMLParser } = await import('fast-xml-parser')
  const text = (await boundedBody(response, 16 * 1024 ** 2)).toString('utf8')
  if (/<!DOCTYPE/i.test(text)) throw new TaskFailure('refused', 'The answer of the server declares entities')
  try {
    const parser = new XMLParser({
      removeNSPrefix: true,
      parseTagValue: false,
      isArray: (name) => lists.includes(name),
    })
    return parser.parse(text)
  } catch (cause) {
    throw new TaskFailure('refused', 'The answer of the server is no XML', cause)
  }
}

/** A path in a URL, each part of it escaped. */
export function urlPath(path: string): string {
  return path
    .split('/')
    .map((part) =>
      encodeURIComponent(part).replace(/[!'()*]/g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`),
    )
    .join('/')
}
