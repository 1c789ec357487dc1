import { execFile } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findNats, lookForNats, type NatsPlaces, natsVersion, oldestNats } from './nats-binary.ts'
import { OperatorError } from './operator-error.ts'

const run = promisify(execFile)
const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg'
/** Debian's stable suites carry servers that are too old. */
const suites = ['sid', 'testing']

/**
 * Path of a nats-server that is new enough. When the machine has none, one is taken from Debian's newer suites into the
 * folder of fetched ones; the machine's own packages stay as they are.
 *
 * @throws {OperatorError} with the command to run, where there is no way to fetch one.
 */
export async function bringNats(
  places: NatsPlaces & { readonly binFolder: string },
  tell: (line: string) => void,
): Promise<string> {
  const found = lookForNats(places)
  if (found !== undefined) return found
  const mirror = await debianMirror()
  if (mirror === undefined) throw new OperatorError(adviceFor(process.platform))
  tell(`fetching nats-server (${oldestNats} or newer) from Debian at ${mirror}`)
  let failure: unknown
  for (const suite of suites) {
    try {
      await fetchFrom(mirror, suite, places.binFolder)
      const binary = findNats(places)
      tell(`nats-server ${natsVersion(binary)} is in ${binary}`)
      return binary
    } catch (error) {
      failure = error
    }
  }
  const { stderr = '', message } = failure as Error & { stderr?: string }
  const reason = stderr.split('\n').find((line) => line.startsWith('E:')) ?? message.split('\n')[0]
  throw new OperatorError(`nats-server could not be fetched: ${reason}. ${adviceFor(process.platform)}`, {
    cause: failure,
  })
}

/** What to do by hand. */
export function adviceFor(platform: string): string {
  const command =
    platform === 'darwin'
      ? '`brew install nats-server`'
      : '`go install github.com/nats-io/nats-server/v2@latest` (or your distribution, or https://nats.io/download)'
  return `Busbar needs nats-server ${oldestNats} or newer on PATH: ${command}; or point --app.nats.url at a running one.`
}

/** The mirror that the machine's own apt sources name; undefined where there is no apt or it is not Debian's. */
async function debianMirror(): Promise<string | undefined> {
  try {
    const { stdout } = await run('apt-get', ['indextargets', '--format', '$(SITE)', 'Created-By: Packages'])
    return stdout.split('\n').find((site) => site.includes('debian') && !site.includes('security'))
  } catch {
    return undefined
  }
}

async function fetchFrom(mirror: string, suite: string, binFolder: string): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'busbar-apt-'))
  try {
    for (const folder of ['lists/partial', 'cache/archives/partial', 'state'])
      mkdirSync(join(work, folder), { recursive: true })
    writeFileSync(join(work, 'status'), '')
    const signed = existsSync(keyring) ? ` [signed-by=${keyring}]` : ''
    writeFileSync(join(work, 'sources.list'), `deb${signed} ${mirror} ${suite} main\n`)
    const options = privateApt(work)
    await run('apt-get', [...options, 'update', '-qq'], { cwd: work })
    await run('apt-get', [...options, 'download', '-qq', 'nats-server'], { cwd: work })
    const archive = readdirSync(work).find((name) => name.endsWith('.deb'))
    if (archive === undefined) throw new Error(`Debian ${suite} has no nats-server`)
    await run('dpkg-deb', ['-x', archive, 'unpacked'], { cwd: work })
    mkdirSync(binFolder, { recursive: true })
    // Copied under a name of our own and then renamed: several starts may fetch at the same time.
    const unfinished = join(binFolder, `nats-server.${process.pid}`)
    copyFileSync(join(work, 'unpacked/usr/sbin/nats-server'), unfinished)
    chmodSync(unfinished, 0o755)
    renameSync(unfinished, join(binFolder, 'nats-server'))
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** An apt with lists, cache and package status of its own. */
function privateApt(work: string): string[] {
  const settings = {
    'Dir::State': join(work, 'state'),
    'Dir::State::Lists': join(work, 'lists'),
    'Dir::State::status': join(work, 'status'),
    'Dir::Cache': join(work, 'cache'),
    'Dir::Etc::SourceList': join(work, 'sources.list'),
    'Dir::Etc::SourceParts': '/dev/null',
    'Dir::Etc::PreferencesParts': '/dev/null',
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])
}
