import { blobBytes, concatenated, File, FormData } from './blob.ts'
import { decodeUtf8, encodeUtf8 } from './body.ts'
import { ask } from './host.ts'
import { fromLatin1, latin1 } from './wire.ts'

const escaped = (name: string): string => name.replace(/\r\n?|\n/g, '%0D%0A').replace(/"/g, '%22')

/** multipart/form-data of a form, and its content type. Source: RFC 7578 */
export function encodeMultipart(form: FormData): { readonly bytes: Uint8Array<ArrayBuffer>; readonly type: string } {
  const boundary = `----busbar${ask('uuid', '').replaceAll('-', '')}`
  const parts: Uint8Array[] = []
  for (const [name, value] of form) {
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(name)}"`
    if (typeof value === 'string') parts.push(encodeUtf8(`${head}\r\n\r\n${value}\r\n`))
    else {
      const type = value.type || 'application/octet-stream'
      parts.push(encodeUtf8(`${head}; filename="${escaped(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`))
      parts.push(blobBytes(value), encodeUtf8('\r\n'))
    }
  }
  parts.push(encodeUtf8(`--${boundary}--\r\n`))
  return { bytes: concatenated(parts), type: `multipart/form-data; boundary=${boundary}` }
}

const MAX_PARTS = 1_000

/** @throws {TypeError} when the bytes are no multipart body with that boundary */
export function decodeMultipart(bytes: Uint8Array, boundary: string): FormData {
  const form = new FormData()
  const text = `\r\n${latin1(bytes)}`
  const mark = `\r\n--${boundary}`
  let at = text.indexOf(mark)
  for (let count = 0; at >= 0; count++) {
    const from = at + mark.length
    if (text.startsWith('--', from)) return form
    const next = text.indexOf(mark, from)
    const body = text.indexOf('\r\n\r\n', from)
    if (next < 0 || body < 0 || body > next || count >= MAX_PARTS) break
    addPart(form, text.slice(from, body), text.slice(body + 4, next))
    at = next
  }
  throw new TypeError('The body is not multipart/form-data as its content type says')
}

function addPart(form: FormData, head: string, body: string): void {
  const name = /;\s*name="([^"]*)"/i.exec(head)?.[1]
  if (name === undefined) throw new TypeError('A part of the form has no name')
  const fileName = /;\s*filename="([^"]*)"/i.exec(head)?.[1]
  const type = /\r\ncontent-type:\s*([^\r]*)/i.exec(head)?.[1] ?? 'text/plain'
  const plain = (text: string) => decodeUtf8(fromLatin1(text.replaceAll('%22', '"').replaceAll('%0D%0A', '\r\n')))
  if (fileName === undefined) form.append(plain(name), decodeUtf8(fromLatin1(body)))
  else form.append(plain(name), new File([fromLatin1(body)], plain(fileName), { type }))
}
