import { parse as parseToml, stringify as stringifyToml, TomlError } from 'smol-toml'
import { parseAllDocuments, stringify as stringifyYaml } from 'yaml'
import { TaskFailure } from '../../plugin.ts'
import { jsonValue } from '../json-value.ts'

interface Parse {
  readonly text: string
  readonly format: 'yaml' | 'toml'
  readonly merge: boolean
}

interface Stringify {
  readonly values: readonly unknown[]
  readonly format: 'yaml' | 'toml'
  readonly sortKeys: boolean
  readonly indent: number
}

const maxDocuments = 10_000
/** How much larger than it is written a document may become by its aliases. */
const maxAliasCount = 100
const maxDepth = 200

/** Source: https://yaml.org/spec/1.2.2/, https://toml.io/en/v1.0.0 */
export function parse({ text, format, merge }: Parse) {
  const documents = format === 'toml' ? [tomlOf(text)] : yamlOf(text, merge)
  return { value: documents[0] ?? null, documents }
}

function yamlOf(text: string, merge: boolean): unknown[] {
  const found = refusing('YAML', () => {
    return parseAllDocuments(text, { intAsBigInt: true, merge, prettyErrors: true, stringKeys: true, version: '1.2' })
  })
  // No document at all is told by an empty list with marks of its own.
  const documents = Array.isArray(found) ? found : []
  if (documents.length > maxDocuments) throw new TaskFailure('refused', `There are more than ${maxDocuments} documents`)
  return documents.map((document) => {
    const [mistake] = [...document.errors, ...document.warnings]
    if (mistake !== undefined) {
      // The message goes on with a picture of the place.
      const told = mistake.message
        .split('\n')[0]!
        .replace(/:$/, '')
        .replace('Maximum call stack size exceeded', 'it nests too deep')
      throw new TaskFailure('refused', `This is no YAML: ${told}`, mistake)
    }
    return jsonValue(refusing('YAML', () => document.toJS({ maxAliasCount })))
  })
}

function tomlOf(text: string): unknown {
  return jsonValue(refusing('TOML', () => parseToml(text, { integersAsBigInt: 'asNeeded', maxDepth })))
}

function refusing<Result>(what: string, work: () => Result): Result {
  try {
    return work()
  } catch (error) {
    const { message } = error as Error
    const place = error instanceof TomlError ? ` at line ${error.line}, column ${error.column}` : ''
    const told = error instanceof RangeError ? 'it nests too deep' : message.split('\n')[0]
    throw new TaskFailure('refused', `This is no ${what} that can be read: ${told}${place}`, error)
  }
}

export function stringify({ values, format, sortKeys, indent }: Stringify): string {
  const plain = values.map((value) => jsonValue(value))
  if (format === 'yaml') {
    const options = { aliasDuplicateObjects: false, indent, lineWidth: 0, sortMapEntries: sortKeys }
    return plain.map((value) => stringifyYaml(value, options)).join('---\n')
  }
  const [value, ...others] = plain
  if (others.length > 0) throw new TaskFailure('refused', 'properties.documents: TOML holds one')
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new TaskFailure('refused', 'properties.value is no object, and TOML holds nothing else')
  }
  try {
    return stringifyToml(value, { maxDepth })
  } catch (error) {
    throw new TaskFailure('refused', `properties.value cannot be TOML: ${(error as Error).message}`, error)
  }
}
