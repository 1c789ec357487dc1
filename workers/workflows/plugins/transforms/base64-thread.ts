import { TaskFailure } from '../../plugin.ts'

type Encoding = 'base64' | 'base64url' | 'hex' | 'url'

/** What each is made of; blanks and line breaks are left out before. */
const forms: Readonly<Record<Encoding, { readonly wrong: RegExp; readonly whole: RegExp; readonly what: string }>> = {
  base64: { wrong: /[^A-Za-z0-9+/=]/, whole: /^[A-Za-z0-9+/]*={0,2}$/, what: 'base64' },
  base64url: { wrong: /[^A-Za-z0-9_=-]/, whole: /^[A-Za-z0-9_-]*={0,2}$/, what: 'base64url' },
  hex: { wrong: /[^0-9A-Fa-f]/, whole: /^(?:[0-9A-Fa-f]{2})*$/, what: 'hex digits, two a byte' },
  url: { wrong: /%(?![0-9A-Fa-f]{2})/, whole: /^/, what: 'percent-encoded' },
}

interface Encode {
  readonly bytes: Uint8Array
  readonly encoding: Encoding
  readonly isPadded: boolean
}

export function encoded({ bytes, encoding, isPadded }: Encode): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (encoding === 'hex') return buffer.toString('hex')
  if (encoding !== 'url') return padded(buffer.toString(encoding), isPadded)
  // Byte by byte, so that files need not be texts.
  return buffer.toString('latin1').replace(/[^A-Za-z0-9_.~-]/g, (byte) => {
    return `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
  })
}

function padded(text: string, isPadded: boolean): string {
  const bare = text.replace(/=+$/, '')
  return isPadded ? bare.padEnd(Math.ceil(bare.length / 4) * 4, '=') : bare
}

export function decodedBytes({ text, encoding }: { readonly text: string; readonly encoding: Encoding }): Uint8Array {
  const { wrong, whole, what } = forms[encoding]
  const compact = encoding === 'url' ? text : text.replace(/\s+/g, '')
  const at = compact.search(wrong)
  if (at >= 0) {
    throw new TaskFailure('refused', `This is not ${what}: ${JSON.stringify(compact[at])} as character ${at + 1}`)
  }
  const bare = compact.replace(/=+$/, '').length
  const isCut =
    encoding.startsWith('base64') && (bare % 4 === 1 || (compact.length !== bare && compact.length % 4 !== 0))
  if (!whole.test(compact) || isCut)
    throw new TaskFailure('refused', `This is not ${what}: it ends too early or too late`)
  if (encoding !== 'url') return new Uint8Array(Buffer.from(compact, encoding))
  const latin = Buffer.from(compact, 'utf8').toString('latin1')
  const plain = latin.replace(/%([0-9A-Fa-f]{2})/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)))
  return new Uint8Array(Buffer.from(plain, 'latin1'))
}
