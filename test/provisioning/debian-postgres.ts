import { chmodSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { bringDebianPackages } from '../../ops/local/debian-packages.ts'
import { environment } from '../../schemas/config/environment.ts'

/** Folder of Debian's PostgreSQL with its client tools: the machine's, else from packages that are unpacked beside the data. */
export async function debianPostgres(): Promise<string> {
  return programsBelow('/') ?? (await unpacked())
}

function programsBelow(root: string): string | undefined {
  const folder = join(root, 'usr/lib/postgresql')
  const majors = existsSync(folder) ? readdirSync(folder).map(Number).filter(Number.isInteger) : []
  const whole = (bin: string) => ['postgres', 'initdb', 'pg_dump', 'psql'].every((name) => existsSync(join(bin, name)))
  return majors
    .sort((left, right) => right - left)
    .map((major) => join(folder, String(major), 'bin'))
    .find(whole)
}

async function unpacked(): Promise<string> {
  const folder = environment().BUSBAR_DATA ?? resolve(import.meta.dirname, '../../.busbar')
  const packages = await bringDebianPackages({ folder, name: 'postgresql', packages: ['postgresql'] })
  const programs = programsBelow(packages.root)
  if (programs === undefined) throw new Error(`There is no PostgreSQL in ${packages.root}`)
  return finding(programs, join(packages.root, 'programs'), packages.environment.LD_LIBRARY_PATH)
}

/** The same programs in another folder, from where they find libraries that the machine does not have. */
function finding(programs: string, folder: string, libraries: string): string {
  if (existsSync(folder)) return folder
  const unfinished = mkdtempSync(`${folder}.`)
  for (const name of readdirSync(programs)) {
    const script = `#!/bin/sh\nLD_LIBRARY_PATH='${libraries}' exec '${join(programs, name)}' "$@"\n`
    writeFileSync(join(unfinished, name), script, { mode: 0o755 })
  }
  chmodSync(unfinished, 0o755)
  try {
    renameSync(unfinished, folder)
  } catch (error) {
    // Another test has made it.
    rmSync(unfinished, { recursive: true })
    if (!existsSync(folder)) throw error
  }
  return folder
}
