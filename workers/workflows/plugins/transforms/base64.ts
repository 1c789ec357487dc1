import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { bytesOf, contentOutputs, contentProperties, decoded, givenBack, ToFile } from '../content.ts'
import { threadModule } from '../thread-module.ts'

const work = threadModule<typeof import('./base64-thread.ts')>(new URL('./base64-thread.ts', import.meta.url))

const Encoding = Type.Enum(['base64', 'base64url', 'hex', 'url'], {
  description: 'base64, base64url (RFC 4648), hex digits, or percent-encoding as in a URL (RFC 3986)',
  default: 'base64',
  examples: ['base64url'],
})

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
      const isPadded = padding ?? encoding === 'base64'
      return await givenBack(task, await work(task, 'encoded', { bytes, encoding, isPadded }), toFile)
    }
    const text = decoded(bytes, 'properties.file')
    const made = await work(task, 'decodedBytes', { text, encoding })
    if (toFile) return await givenBack(task, made, true)
    return await givenBack(task, textIn(made), false)
  },
})

function textIn(bytes: Uint8Array): string {
  try {
    return decoded(bytes, 'What is in it')
  } catch (cause) {
    throw new TaskFailure('refused', 'What is in it is not a text in UTF-8: give properties.toFile', cause)
  }
}
