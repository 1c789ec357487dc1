import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CareFailure } from '../care-failure.ts'

interface ManifestFile {
  readonly path: string
  readonly sizeBytes: number
  /** Hex of SHA-256. */
  readonly sha256: string
}

export interface BackupManifest {
  readonly files: readonly ManifestFile[]
}

interface ManifestJson {
  readonly 'PostgreSQL-Backup-Manifest-Version': number
  readonly Files: readonly {
    readonly Path?: string
    readonly 'Encoded-Path'?: string
    readonly Size: number
    readonly 'Checksum-Algorithm'?: string
    readonly Checksum?: string
  }[]
  readonly 'Manifest-Checksum': string
}

/**
 * Reads the server's manifest of a base backup and holds it against its own checksum.
 *
 * Source: https://www.postgresql.org/docs/current/backup-manifest-format.html
 *
 * @throws {CareFailure} `failed` when it was changed or is of an unknown form.
 */
export function parseManifest(bytes: Buffer): BackupManifest {
  const lastLine = bytes.lastIndexOf('"Manifest-Checksum"')
  const covered = bytes.subarray(0, Math.max(lastLine, 0))
  let json: ManifestJson
  try {
    json = JSON.parse(bytes.toString('utf8')) as ManifestJson
  } catch (error) {
    throw new CareFailure('failed', 'The manifest of the backup cannot be read.', { cause: error })
  }
  if (createHash('sha256').update(covered).digest('hex') !== json['Manifest-Checksum']) {
    throw new CareFailure('failed', 'The manifest of the backup was changed.')
  }
  return {
    files: json.Files.map((file) => ({
      path: file.Path ?? Buffer.from(file['Encoded-Path'] ?? '', 'hex').toString('latin1'),
      sizeBytes: file.Size,
      sha256: file.Checksum ?? '',
    })),
  }
}

/**
 * Holds every file of a copied data folder against the manifest in it: missing, additional, of another size, changed.
 * The write-ahead log is not in the manifest. Answers the problems, at most 20; none means the copy is what was written.
 */
export async function checkManifest(
  dataFolder: string,
  { manifestSha256, signal }: { readonly manifestSha256?: string; readonly signal?: AbortSignal | undefined } = {},
): Promise<readonly string[]> {
  let manifest: BackupManifest
  try {
    const bytes = await readFile(join(dataFolder, 'backup_manifest'))
    const ours = createHash('sha256').update(bytes).digest('hex')
    if (manifestSha256 !== undefined && ours !== manifestSha256) return ['the manifest was changed']
    manifest = parseManifest(bytes)
  } catch (error) {
    return [error instanceof CareFailure ? error.message : 'the manifest is missing']
  }
  const problems: string[] = []
  const expected = new Map(manifest.files.map((file) => [file.path, file]))
  for (const path of await filesBelow(dataFolder)) {
    if (!expected.has(path)) problems.push(`${path} is not in the manifest`)
  }
  for (const file of expected.values()) {
    if (problems.length >= 20) break
    signal?.throwIfAborted()
    const problem = await checkFile(join(dataFolder, file.path), file)
    if (problem !== undefined) problems.push(`${file.path} ${problem}`)
  }
  return problems.slice(0, 20)
}

async function filesBelow(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .filter((path) => !path.startsWith('pg_wal/') && path !== 'backup_manifest')
}

async function checkFile(path: string, file: ManifestFile): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined)
  if (found === undefined) return 'is missing'
  if (found.size !== file.sizeBytes) return `has ${found.size} bytes instead of ${file.sizeBytes}`
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex') === file.sha256 ? undefined : 'was changed'
}
