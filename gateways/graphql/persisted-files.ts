import { hash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, extname, join } from 'node:path'
import { parse } from 'graphql'

/** A file of persisted documents that cannot be used; the text is one line for the operator. */
export class PersistedDocumentsFault extends Error {}

const maxBytes = 64 * 1024 * 1024

/**
 * Documents by their id, and by the SHA-256 of their text besides. A `.json` file is a map of ids to texts, as Relay and graphql-codegen
 * write it; in a folder every `.graphql` or `.gql` file is a document whose id is the file's name, and `.json` files are maps.
 * @throws {PersistedDocumentsFault} naming the file, and what is wrong with it
 */
export function readPersistedDocuments(path: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  const files = filesOf(path)
  for (const file of files) {
    for (const [id, text] of documentsOf(file)) {
      checkDocument(file, id, text)
      const known = found.get(id)
      if (known !== undefined && known !== text)
        fault(file, `the id ${JSON.stringify(id)} has another document already`)
      found.set(id, text)
    }
  }
  if (found.size === 0) fault(path, 'it holds no documents')
  for (const text of [...found.values()]) {
    const digest = hash('sha256', text, 'hex')
    if (!found.has(digest)) found.set(digest, text)
  }
  return found
}

function filesOf(path: string): string[] {
  if (!attempt(path, () => statSync(path)).isDirectory()) return [path]
  return attempt(path, () => readdirSync(path))
    .filter((name) => ['.json', '.graphql', '.gql'].includes(extname(name)))
    .toSorted()
    .map((name) => join(path, name))
}

function documentsOf(file: string): readonly (readonly [string, string])[] {
  if (attempt(file, () => statSync(file)).size > maxBytes) fault(file, `it is larger than ${maxBytes} bytes`)
  const text = attempt(file, () => readFileSync(file, 'utf8'))
  if (extname(file) !== '.json') return [[basename(file, extname(file)), text]]
  let map: unknown
  try {
    map = JSON.parse(text)
  } catch {
    return fault(file, 'it is not JSON')
  }
  if (typeof map !== 'object' || map === null || Array.isArray(map))
    return fault(file, 'it is not an object of documents')
  return Object.entries(map).map(([id, document]) =>
    typeof document === 'string' ? [id, document] : fault(file, `${JSON.stringify(id)} is not the text of a document`),
  )
}

function checkDocument(file: string, id: string, text: string): void {
  try {
    parse(text)
  } catch (error) {
    fault(file, `the document ${JSON.stringify(id)} cannot be parsed: ${(error as Error).message}`)
  }
}

function attempt<Result>(file: string, read: () => Result): Result {
  try {
    return read()
  } catch (error) {
    return fault(file, `it cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
}

function fault(file: string, reason: string): never {
  throw new PersistedDocumentsFault(`${file}: ${reason}`)
}
