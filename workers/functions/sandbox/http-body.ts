import { Blob, blobBytes, FormData, isBlob } from './blob.ts'
import { decodeUtf8, encodeUtf8 } from './body.ts'
import { parseForm } from './form-encoding.ts'
import { Headers } from './headers.ts'
import { bytesOf, jsonParse } from './intrinsics.ts'
import { decodeMultipart, encodeMultipart } from './multipart.ts'
import { scalarText, URLSearchParams } from './url.ts'

type BodyContent = string | Uint8Array<ArrayBuffer> | null

/** A body's content and the content type it brings with it. */
function extracted(given: unknown): { readonly content: BodyContent; readonly type: string | null } {
  if (given === undefined || given === null) return { content: null, type: null }
  const bytes = bytesOf(given)
  if (bytes !== null) return { content: bytes.slice() as Uint8Array<ArrayBuffer>, type: null }
  if (isBlob(given)) return { content: blobBytes(given), type: given.type === '' ? null : given.type }
  if (given instanceof URLSearchParams)
    return { content: given.toString(), type: 'application/x-www-form-urlencoded;charset=UTF-8' }
  if (given instanceof FormData) {
    const { bytes: content, type } = encodeMultipart(given)
    return { content, type }
  }
  if (typeof given === 'object' && typeof (given as { getReader?: unknown }).getReader === 'function') throw noStreams()
  return { content: scalarText(given), type: 'text/plain;charset=UTF-8' }
}

const noStreams = () =>
  new TypeError('Streams are not supported here: read a body with text(), json(), bytes(), arrayBuffer() or formData()')

export let bodyBytes: (body: Body) => Uint8Array<ArrayBuffer> | null
let bodyContent: (body: Body) => BodyContent

/** What Request and Response have in common. */
export class Body {
  #content: BodyContent = null
  #used = false
  #headers: Headers
  static {
    bodyBytes = (body) => (typeof body.#content === 'string' ? encodeUtf8(body.#content) : body.#content)
    bodyContent = (body) => body.#content
  }
  constructor(headers: unknown, given: unknown) {
    this.#headers = new Headers(headers)
    const { content, type } = extracted(given)
    this.#content = content
    if (type !== null && !this.#headers.has('content-type')) this.#headers.set('content-type', type)
  }
  get headers(): Headers {
    return this.#headers
  }
  get bodyUsed(): boolean {
    return this.#used
  }
  /** null without a body; reading one as a stream is not supported. */
  get body(): null {
    if (this.#content === null) return null
    throw noStreams()
  }
  async #take(): Promise<BodyContent> {
    if (this.#used) throw new TypeError('Body is unusable: it has been read already')
    this.#used = this.#content !== null
    return this.#content
  }
  async text(): Promise<string> {
    const content = await this.#take()
    if (typeof content !== 'string') return content === null ? '' : decodeUtf8(content)
    return content[0] === '\ufeff' ? content.slice(1) : content
  }
  async json(): Promise<unknown> {
    return jsonParse(await this.text())
  }
  async bytes(): Promise<Uint8Array> {
    const content = await this.#take()
    return typeof content === 'string' ? encodeUtf8(content) : content === null ? new Uint8Array(0) : content.slice()
  }
  async arrayBuffer(): Promise<ArrayBuffer> {
    return (await this.bytes()).buffer as ArrayBuffer
  }
  async blob(): Promise<Blob> {
    return new Blob([await this.bytes()], { type: this.#headers.get('content-type') ?? '' })
  }
  async formData(): Promise<FormData> {
    const type = this.#headers.get('content-type') ?? ''
    if (type.includes('application/x-www-form-urlencoded')) {
      const form = new FormData()
      for (const [name, value] of parseForm(await this.text())) form.append(name, value)
      return form
    }
    const boundary = /multipart\/form-data;.*boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(type)
    if (boundary === null) throw new TypeError('The content type is no form')
    return decodeMultipart(await this.bytes(), boundary[1] ?? boundary[2]!)
  }
}

/** Refuses to copy a body that was read. */
export function unread(body: Body): BodyContent {
  if (body.bodyUsed) throw new TypeError('Body is unusable: it has been read already')
  return bodyContent(body)
}
