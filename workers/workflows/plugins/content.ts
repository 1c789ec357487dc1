import { Type } from 'typebox'
import { TaskFailure, type TaskRun } from '../plugin.ts'

type Files = { readonly services: Pick<TaskRun<unknown>['services'], 'files'> }

/** Largest file that a task reads or writes whole. */
export const maxFileBytes = 64 * 1024 ** 2
/** Largest text among the outputs; what is larger has to be a file. */
const maxTextBytes = 16 * 1024 ** 2

interface Content {
  readonly text?: string
  readonly file?: string
}

/** Properties of a plugin that reads a text, or a file of another task. */
export function contentProperties(description: string, example: string) {
  return {
    text: Type.Optional(Type.String({ description: `${description}; or give \`file\``, examples: [example] })),
    file: Type.Optional(
      Type.String({
        description: 'In place of `text`: URI of a file of another task',
        examples: ['{{ outputs.download.uri }}'],
      }),
    ),
  }
}

export const ToFile = Type.Boolean({
  description: 'Whether to give a file, for other tasks to read, in place of a text',
  default: false,
  examples: [true],
})

/** Outputs of a plugin that gives a text or a file. */
export const contentOutputs = {
  text: Type.Optional(Type.String({ description: 'What was made, unless it is a file', examples: ['a text'] })),
  uri: Type.Optional(Type.String({ description: 'The file that was made', examples: ['busbar:///files/3q2-7w'] })),
  sizeBytes: Type.Optional(Type.Integer({ description: 'Size of what was made', examples: [6] })),
}

/** @throws {TaskFailure} `refused` unless there is one of the two, and not too large */
export async function bytesOf({ services }: Files, { text, file }: Content): Promise<Uint8Array> {
  if (text !== undefined && file !== undefined) {
    throw new TaskFailure('refused', 'properties.text and properties.file: only one of them can be given')
  }
  if (text === undefined && file === undefined) {
    throw new TaskFailure('refused', 'properties.text or properties.file is needed')
  }
  const bytes = file === undefined ? Buffer.from(text!, 'utf8') : await services.files.get(file)
  if (bytes.length <= maxFileBytes) return bytes
  throw new TaskFailure('refused', `properties.${file === undefined ? 'text' : 'file'} is larger than 64 MB`)
}

/** @throws {TaskFailure} as above, and when it is not in UTF-8 */
export async function textOf(given: Files, content: Content): Promise<string> {
  return decoded(await bytesOf(given, content), 'properties.file')
}

/** Without a byte order mark. @throws {TaskFailure} `refused` naming the place */
export function decoded(bytes: Uint8Array, place: string, encoding = 'utf-8'): string {
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new TaskFailure('refused', `${place} is not a text in ${encoding.toUpperCase()}`, cause)
  }
}

/** What `contentOutputs` says. @throws {TaskFailure} `refused` when it is too large */
export async function givenBack({ services }: Files, made: string | Uint8Array, toFile: boolean) {
  const sizeBytes = typeof made === 'string' ? Buffer.byteLength(made) : made.length
  if (toFile || typeof made !== 'string') {
    if (sizeBytes > maxFileBytes) throw new TaskFailure('refused', 'What was made is larger than 64 MB')
    const { uri } = await services.files.put(typeof made === 'string' ? Buffer.from(made) : made)
    return { uri, sizeBytes }
  }
  if (sizeBytes <= maxTextBytes) return { text: made, sizeBytes }
  throw new TaskFailure('refused', 'What was made is larger than 16 MB: give properties.toFile')
}

/** For a property that one of the operations cannot do without. @throws {TaskFailure} `refused` naming it */
export function needed<Value>(value: Value | undefined, name: string, operation: string): Value {
  if (value !== undefined) return value
  throw new TaskFailure('refused', `properties.${name} is needed for ${operation}`)
}
