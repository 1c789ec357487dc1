import { execFile } from 'node:child_process'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tied } from '../../supervisor/tied.ts'
import { refuse } from '../care-failure.ts'
import { isMysqlPlatformSetting } from '../mysql/mysql-parameters.ts'
import { chooseInstallation, type Installation, type LocalPlace, type MysqlInstallation } from '../place.ts'
import type { NodeAccount } from '../postgres-node.ts'
import { isPlatformSetting } from './setting.ts'

export interface NewParameters {
  readonly databaseType: string
  /** Of the server; null: any there is. */
  readonly version: string | null
  readonly parameters: Readonly<Record<string, string>>
}

const readMs = 15_000
const maxLength = 1_000

/**
 * Checks parameters for which there is no server yet: the server's program reads them, and does not start. Limits that depend on the
 * machine show only at a start.
 *
 * @throws {CareFailure} `refused` (400), field `parameters.<name>`; {Rejected} `provisioning/engine-missing`
 */
export async function checkNewParameters(place: LocalPlace, wanted: NewParameters): Promise<void> {
  const { databaseType, version, parameters } = wanted
  if (Object.keys(parameters).length === 0) return
  const ours = databaseType === 'MYSQL' ? isMysqlPlatformSetting : isPlatformSetting
  for (const [name, value] of Object.entries(parameters)) requireWritable(name, value, ours)
  if (databaseType === 'MYSQL') {
    const found = await place.mysql()
    if (found !== null) refuseFault(await mysqlFault(found, place.account, parameters))
  }
  if (databaseType !== 'POSTGRESQL') return
  const all = await place.postgres()
  const faults: (Fault | null)[] = []
  for (const each of version === null ? all : [chooseInstallation(all, version)]) {
    faults.push(await postgresFault(each, place.account, parameters))
  }
  // What one version knows another may have forgotten.
  if (!faults.includes(null)) refuseFault(faults[0] ?? null)
}

/** Names and values that are what they look like in a file of settings. */
function requireWritable(name: string, value: string, ours: (name: string) => boolean): void {
  const field = `parameters.${name.slice(0, 80)}`
  const known = /^[A-Za-z][\w.-]*$/.test(name) && !/^include/i.test(name)
  if (!known) refuse(`There is no parameter ${name.slice(0, 80)}.`, { field })
  if (ours(name.toLowerCase().replaceAll('-', '_'))) {
    refuse(`${name} is managed by the platform and cannot be set.`, { field })
  }
  if (/[\0\r\n]/.test(value) || value.length > maxLength) {
    refuse(`${name} must be one line of at most ${maxLength} characters.`, { field })
  }
}

interface Fault {
  readonly name: string | null
  readonly reason: string
}

function refuseFault(fault: Fault | null): void {
  if (fault === null) return
  refuse(`${fault.reason}.`, { field: fault.name === null ? 'parameters' : `parameters.${fault.name}` })
}

type Parameters = NewParameters['parameters']

async function postgresFault(
  { binFolder }: Installation,
  account: NodeAccount | undefined,
  parameters: Parameters,
): Promise<Fault | null> {
  const lines = Object.entries(parameters).map(([name, value]) => `${name} = '${value.replace(/['\\]/g, '$&$&')}'\n`)
  const complaint = await complaintOf(account, { name: 'postgresql.conf', text: lines.join('') }, (folder) => ({
    command: join(binFolder, 'postgres'),
    args: ['-C', 'config_file', '-D', folder],
    environment: {},
  }))
  const told = complaint?.split('\n').find((line) => /parameter "/.test(line))
  if (told === undefined) return null
  const [, reason = '', name = null] = /(?:LOG|FATAL|ERROR): +(.*parameter "([\w.]+)".*)$/.exec(told) ?? []
  return { name, reason: reason.replace(/ in file ".*$/, '') || 'The server refuses the parameters' }
}

async function mysqlFault(
  { binaries }: MysqlInstallation,
  account: NodeAccount | undefined,
  parameters: Parameters,
): Promise<Fault | null> {
  const lines = Object.entries(parameters).map(([name, value]) => `${name}="${value.replace(/["\\]/g, '\\$&')}"\n`)
  const file = { name: 'parameters.cnf', text: `[mysqld]\n${lines.join('')}` }
  const complaint = await complaintOf(account, file, (folder) => ({
    command: binaries.server,
    args: [
      `--defaults-file=${join(folder, file.name)}`,
      `--basedir=${binaries.baseFolder}`,
      `--datadir=${folder}`,
      `--plugin-dir=${binaries.pluginFolder}`,
      '--help',
      '--verbose',
    ],
    environment: binaries.environment,
  }))
  for (const line of complaint?.split('\n') ?? []) {
    if (!line.includes('[ERROR]')) continue
    const plain = line.replaceAll('-', '_').toLowerCase()
    const name = Object.keys(parameters).find((each) => plain.includes(each.replaceAll('-', '_').toLowerCase()))
    if (name === undefined) continue
    const unknown = /unknown variable/i.test(line)
    return { name, reason: unknown ? `There is no parameter ${name}` : `The server refuses the value of ${name}` }
  }
  return null
}

interface Reading {
  readonly command: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
}

/** What a program says of a file of settings, in a folder of its own; null when it takes them, or cannot be run. */
async function complaintOf(
  account: NodeAccount | undefined,
  file: { readonly name: string; readonly text: string },
  readingOf: (folder: string) => Reading,
): Promise<string | null> {
  const folder = await mkdtemp(join(tmpdir(), 'bb-'))
  try {
    await writeFile(join(folder, file.name), file.text, { mode: 0o600 })
    for (const path of account === undefined ? [] : [join(folder, file.name), folder]) {
      await chown(path, account!.uid, account!.gid)
    }
    const { command, args, environment } = readingOf(folder)
    const env = { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin', ...environment }
    return await new Promise((resolve) => {
      execFile(...tied(command, args), { cwd: folder, env, timeout: readMs, ...account }, (error, _stdout, stderr) =>
        resolve(error === null && !stderr.includes('[ERROR]') ? null : stderr),
      )
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
