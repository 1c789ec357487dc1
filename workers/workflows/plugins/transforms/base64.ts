import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { bytesOf, contentOutputs, contentProperties, decoded, givenBack, ToFile } from '../content.ts'

const Encoding = Type.Enum(['base64', 'base64url', 'hex', 'url'], {
  description: 'base64, base64url (RFC 4648), hex digits, or percent-encoding as in a URL (RFC 3986)',
  default: 'base64',
  examples: ['base64url'],
})

type Encoding = Static<typeof Encoding>

/** What each is made of; blanks and line breaks are left out before. */
const forms: Readonly<Record<Encoding, { readonly wrong: RegExp; readonly whole: RegExp; readonly what: string }>> = {
  base64: { wrong: /[^A-Za-z0-9+/=]/, whole: /^[A-Za-z0-9+/]*={0,2}$/, what: 'base64' },
  base64url: { wrong: /[^A-Za-z0-9_=-]/, whole: /^[A-Za-z0-9_-]*={0,2}$/, what: 'base64url' },
  hex: { wrong: /[^0-9A-Fa-f]/, whole: /^(?:[0-9A-Fa-f]{2})*$/, what: 'hex digits, two a byte' },
  url: { wrong: /%(?![0-9A-Fa-f]{2})/, whole: /^/, what: 'percent-encoded' },
}

/** Source: RFC 4648, RFC 3986 section 2 */
export const base64 = definePlugin({
  id: 'transform.base64',
  name: 'Base64',
  category: 'Transforms',
  description: 'Encodes texts and files as base64, base64url, hex or percent-encoding, and decodes them.',
  effect: 'pure',
  input: Type.Object(
    {
      operation: Type.Enum(['encode', 'decode'], {
        description: 'Which way',
        default: 'encode',
        examples: ['decode'],
      }),
      encoding: Encoding,
      ...contentProperties('What to encode or decode', 'Hello'),
      padding: Type.Union([Type.Boolean(), Type.Null()], {
        description: 'Whether base64 ends with `=`; by default base64 does and base64url does not',
        default: null,
        examples: [false],
      }),
      toFile: ToFile,
    },
    { additionalProperties: false },
  ),
  output: Type.Object(contentOutputs),
  example: `name: encode
tasks:
  - name: encode
    type: transform.base64
    properties:
      text: Hello
  - name: decode
    type: transform.base64
    properties:
      operation: decode
      text: '{{ outputs.encode.text }}'
`,
  async run(task) {
    const { operation, encoding, toFile, padding } = task.input
    const bytes = await bytesOf(task, task.input)
    if (operation === 'encode') {
      const text = encoded(bytes, encoding)
      return await givenBack(
        task,
        encoding.startsWith('base64') ? padded(text, padding ?? encoding === 'base64') : text,
        toFile,
      )
    }
    const made = decodedBytes(decoded(bytes, 'properties.file'), encoding)
    if (toFile) return await givenBack(task, made, true)
    return await givenBack(task, textIn(made), false)
  },
})

function encoded(bytes: Uint8Array, encoding: Encoding): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (encoding !== 'url') return buffer.toString(encoding)
  // Byte by byte, so that files need not be texts.
  return buffer.toString('latin1').replace(/[^A-Za-z0-9_.~-]/g, (byte) => {
    return `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
  })
}

function padded(text: string, isPadded: boolean): string {
  const bare = text.replace(/=+$/, '')
  return isPadded ? bare.padEnd(Math.ceil(bare.length / 4) * 4, '=') : bare
}

function decodedBytes(text: string, encoding: Encoding): Uint8Array {
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
  if (encoding !== 'url') return Buffer.from(compact, encoding)
  const latin = Buffer.from(compact, 'utf8').toString('latin1')
  return Buffer.from(
    latin.replace(/%([0-9A-Fa-f]{2})/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16))),
    'latin1',
  )
}

function textIn(bytes: Uint8Array): string {
  try {
    return decoded(bytes, 'What is in it')
  } catch (cause) {
    throw new TaskFailure('refused', 'What is in it is not a text in UTF-8: give properties.toFile', cause)
  }
}
