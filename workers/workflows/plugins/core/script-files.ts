import { chown, glob, lstat, mkdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { dirname, join, normalize, sep } from 'node:path'
import { TaskFailure, type TaskFiles } from '../../plugin.ts'

const maxFiles = 100
const maxFileBytes = 64 * 1024 ** 2
const fileUri = /^busbar:\/\/\/files\//

/** Writes a file that the account may change. @throws {TaskFailure} `refused` for a name that leads out of the folder */
export async function giveFile(
  folder: string,
  name: string,
  content: Uint8Array | string,
  account: number | null,
): Promise<string> {
  const path = join(folder, checkedName(name))
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, content, { mode: 0o600, flag: 'wx' })
  if (account === null) return path
  await chown(path, account, account)
  for (let place = dirname(path); place.length >= folder.length; place = dirname(place)) {
    await chown(place, account, account)
  }
  return path
}

/** What a file begins with: the text itself, or the content of a file of another task. */
export async function contentOf(given: string, files: TaskFiles): Promise<Uint8Array | string> {
  return fileUri.test(given) ? await files.get(given) : given
}

/**
 * Files that a script has left, by their names. Nothing runs any more that could change them meanwhile.
 * @param patterns names or globs, from the folder on
 * @throws {TaskFailure} `refused` when a name without a wildcard is not there, or there are too many or too large ones
 */
export async function takeFiles(
  folder: string,
  patterns: readonly string[],
  { files, account }: { readonly files: TaskFiles; readonly account: number | null },
): Promise<Record<string, { readonly uri: string; readonly sizeBytes: number }>> {
  const taken: Record<string, { readonly uri: string; readonly sizeBytes: number }> = {}
  for (const pattern of patterns) {
    let found = 0
    for await (const name of glob(checkedName(pattern), { cwd: folder })) {
      // Braces can hold what leads out of the folder.
      checkedName(name)
      if (!(await isOwnFile(folder, name, account))) continue
      found++
      if (Object.keys(taken).length >= maxFiles) {
        throw new TaskFailure('refused', `properties.outputFiles finds more than ${maxFiles} files`)
      }
      taken[name] ??= await files.put(await readFile(join(folder, name)))
    }
    if (found === 0 && !/[*?[{]/.test(pattern)) {
      throw new TaskFailure('refused', `The script has left no file ${pattern}`)
    }
  }
  return taken
}

/** The text of a file that the script may have left; null when it has not. */
export async function takeText(folder: string, name: string, account: number | null): Promise<string | null> {
  if (!(await isOwnFile(folder, name, account))) return null
  return await readFile(join(folder, name), 'utf8')
}

/** No link to something else, whoever made it, and not too large. */
async function isOwnFile(folder: string, name: string, account: number | null): Promise<boolean> {
  const path = join(folder, name)
  const status = await lstat(path).catch(() => null)
  if (status === null || !status.isFile()) return false
  if ((await realpath(path)) !== join(await realpath(folder), name)) return false
  if (account !== null && status.uid !== account) return false
  if (status.size <= maxFileBytes) return true
  throw new TaskFailure('refused', `The file ${name} is larger than 64 MB`)
}

function checkedName(name: string): string {
  const plain = normalize(name)
  const isInside = plain !== '.' && !plain.startsWith('..') && !plain.startsWith(sep) && !plain.includes('\0')
  if (isInside && name.length <= 255) return plain
  throw new TaskFailure(
    'refused',
    `${JSON.stringify(name.slice(0, 100))} is no name of a file in the folder of the script`,
  )
}
