import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, delimiter, join, resolve } from 'node:path'
import t from 'tap'
import { environment } from '../../schemas/config/environment.ts'
import { startCommand } from '../support/command.ts'

t.setTimeout(300_000)

const checkout = resolve(import.meta.dirname, '../..')
/** What a clone does not have. */
const notCloned = ['node_modules', '.busbar', '.tap', '.git']

/** The first Node on the path that is too old for Busbar itself. */
function olderNode(): string | undefined {
  const candidates = (environment().PATH ?? '').split(delimiter).map((folder) => join(folder, 'node'))
  return candidates.filter(existsSync).find((node) => {
    const major = Number(/^v(\d+)/.exec(execFileSync(node, ['--version'], { encoding: 'utf8' }))?.[1])
    return major >= 18 && major < 24
  })
}

const old = olderNode()

t.test(
  'a clone on a machine with an older Node',
  { skip: old === undefined ? 'no older Node here' : false },
  async (t) => {
    const place = mkdtempSync(join(tmpdir(), 'busbar-clone-'))
    t.teardown(() => rmSync(place, { recursive: true, force: true }))
    const clone = join(place, 'busbar')
    cpSync(checkout, clone, { recursive: true, filter: (from) => !notCloned.includes(basename(from)) })
    const lockfile = readFileSync(join(clone, 'package-lock.json'))
    // The system's Node first, as on that machine.
    const path = [join(old ?? '', '..'), '/usr/local/bin', '/usr/bin', '/bin'].join(delimiter)
    const start = (args: readonly string[]) =>
      startCommand(old ?? '', [join(clone, 'ops', 'busbar.mjs'), ...args], { PATH: path })

    const [one, other] = await Promise.all([start(['config', '--json']).finished, start(['config', '--json']).finished])
    for (const { code, stdout, stderr } of [one, other]) {
      t.equal(code, 0, stderr)
      t.match(JSON.parse(stdout), { 'app.nats.stream-name': { value: 'cdc-stream', source: 'default' } })
    }
    const told = one.stderr + other.stderr
    t.match(told, /fetching Node 24\.\d+\.\d+ \(the system has v\d+\.\d+\.\d+\): done/)
    t.match(told, /installing the dependencies of the lockfile: done/)
    t.match(told, /waiting for another start/, 'two at a time take turns')
    t.strictSame(readFileSync(join(clone, 'package-lock.json')), lockfile, 'the lockfile stays as it is')

    const warm = await start(['doctor', '--no-such-option']).finished
    t.equal(warm.code, 1, 'the exit code comes through')
    t.notMatch(warm.stderr, /fetching|installing/)
    t.match(warm.stderr, /unknown option '--no-such-option'/)
  },
)
