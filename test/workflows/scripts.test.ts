import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { TaskFailure, type TaskServices } from '../../workers/workflows/plugin.ts'
import { clearScratch, makeScratch } from '../../workers/workflows/scratch.ts'
import { trialServices, tryPlugin } from '../../workers/workflows/try-plugin.ts'

const find = (id: string) => catalogue.find(({ manifest }) => manifest.id === id)!
const isRoot = process.getuid?.() === 0
const isLinux = process.platform === 'linux'

interface Outputs {
  readonly exitCode: number
  readonly outputs: unknown
  readonly stdout: string
  readonly stderr: string
  readonly truncated: boolean
  readonly files: Record<string, { readonly uri: string; readonly sizeBytes: number }>
}

async function run(
  id: string,
  properties: Record<string, unknown>,
  { signal, services }: { signal?: AbortSignal; services?: Partial<TaskServices> } = {},
) {
  const options = { ...(signal && { signal }), ...(services && { services }) }
  const { outputs, log } = await tryPlugin(find(id), properties, options)
  return { ...(outputs as Outputs), log }
}
const shell = (script: string, more: Record<string, unknown> = {}, options = {}) =>
  run('script.shell', { script, ...more }, options)
const node = (script: string, more: Record<string, unknown> = {}, options = {}) =>
  run('script.shell', { script, language: 'node', ...more }, options)

/** Processes of this machine with a text in their command. */
function processesWith(text: string): readonly string[] {
  if (!isLinux)
    return execFileSync('ps', ['-axo', 'command'], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line.includes(text))
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
        return command.includes(text) ? [command] : []
      } catch {
        return []
      }
    })
}

t.test('a script is given what it asks for, and what it leaves is taken', async (t) => {
  const { files } = trialServices()
  const { uri } = await files.put(Buffer.from('from a file'))
  const script = `
    echo "$1 $2 $GREETING"; cat; cat a.txt sub/b.txt
    printf '{"n": 1}' > "$BUSBAR_OUTPUT"
    mkdir out; echo one > out/1.csv; echo two > out/2.csv; echo note > note.txt
    echo careful >&2`
  const ended = await shell(
    script,
    {
      args: ['x y', "it's"],
      env: { GREETING: "h'i $HOME" },
      stdin: 'in\n',
      files: { 'a.txt': uri, 'sub/b.txt': ' text\n' },
      outputFiles: ['out/*.csv', 'note.txt', '*.none'],
    },
    { services: { files } },
  )
  t.match(ended, {
    exitCode: 0,
    outputs: { n: 1 },
    stdout: "x y it's h'i $HOME\nin\nfrom a file text\n",
    stderr: 'careful\n',
    truncated: false,
  })
  t.same(Object.keys(ended.files).sort(), ['note.txt', 'out/1.csv', 'out/2.csv'])
  t.equal(Buffer.from(await files.get(ended.files['out/2.csv']!.uri)).toString(), 'two\n')
  t.match(ended.log, [
    { level: 'info', message: "x y it's h'i $HOME" },
    { level: 'info', message: 'in' },
  ])
  t.ok(ended.log.some(({ level, message }) => level === 'warn' && message === 'careful'))
})

t.test('the last line is the outputs when it is JSON', async (t) => {
  t.same((await shell('echo first; echo \'{"a": [1]}\'')).outputs, { a: [1] })
  t.same((await shell('echo 7')).outputs, null)
  t.same((await node('console.log(JSON.stringify({ sum: [1, 2].reduce((a, b) => a + b) }))')).outputs, { sum: 3 })
})

t.test('a script has nothing of the worker', async (t) => {
  process.env.BUSBAR_TEST_SECRET = 'do not tell'
  const { stdout } = await shell('env | sort; id -u; pwd')
  t.notMatch(stdout, 'do not tell')
  const names = stdout.split('\n').flatMap((line) => /^([A-Z_]+)=/.exec(line)?.[1] ?? [])
  t.strictSame(
    names.filter((name) => !['PWD', 'OLDPWD', 'SHLVL', '_'].includes(name)),
    ['BUSBAR_IDEMPOTENCY_KEY', 'BUSBAR_OUTPUT', 'HOME', 'LANG', 'PATH', 'TMPDIR'],
  )
  await t.rejects(node("import { readFileSync } from 'node:fs'; readFileSync('/etc/hostname')"), {
    kind: 'refused',
    message: /ERR_ACCESS_DENIED|Access to this API has been restricted/,
  })
  await t.rejects(node("import { execSync } from 'node:child_process'; execSync('id')"), {
    message: /restricted|DENIED/,
  })
})

t.test('root lends each script a user of its own', { skip: !isRoot && 'not root' }, async (t) => {
  const users = await Promise.all([shell('id -u'), shell('id -u; id -G')])
  const [one, other] = users.map(({ stdout }) => Number(stdout.split('\n')[0]))
  t.ok(one! > 1_000 && other! > 1_000 && one !== other)
  t.equal(users[1]!.stdout.split('\n')[1], String(other), 'and no groups of ours')
  await t.rejects(shell(`cat ${new URL(import.meta.url).pathname}.none /etc/shadow`), { message: /shadow/ })
  const links = shell('ln -s /etc/shadow stolen; ln -s /etc real; echo x > own', {
    outputFiles: ['stolen', 'real/shadow'],
  })
  await t.rejects(links, { kind: 'refused', message: 'The script has left no file stolen' })
})

t.test('a failure is told, with its end of what was written', async (t) => {
  await t.rejects(shell('echo bad news >&2; exit 3'), { kind: 'refused', message: 'The script ended with 3: bad news' })
  await t.rejects(shell('false; echo not reached'), { message: /ended with 1/ })
  await t.rejects(shell('exit 75'), { kind: 'unavailable', message: /75/ })
  t.match(await shell('exit 3', { exitCodes: [0, 3] }), { exitCode: 3 })
  await t.rejects(shell('nothing-like-this'), { message: /ended with 127/ })
  await t.rejects(shell('printf no > "$BUSBAR_OUTPUT"'), { message: /no JSON/ })
})

t.test('limits hold', async (t) => {
  await t.rejects(shell('while :; do :; done', { cpuSeconds: 1 }), { kind: 'refused', message: /ended with (152|137)/ })
  await t.rejects(shell('dd if=/dev/zero of=big bs=1024k count=3', { fileMb: 1 }), { message: /ended with (153|1)\b/ })
  await t.rejects(node('const all = []; for (;;) all.push(new Array(1e6).fill(1))', { memoryMb: 32 }), {
    kind: 'refused',
    message: /ended with/,
  })
  const bomb = 'i=0; while [ $i -lt 50 ]; do sleep 987601 & i=$((i+1)); done; wait'
  if (isLinux) await t.rejects(shell(bomb, { processes: 10 }), { kind: 'refused', message: /ended with/ })
  t.same(processesWith('sleep 987601'), [])
  const { stdout, truncated, log } = await shell('yes | head -c 3000000')
  t.ok(truncated && stdout.length === 1024 * 1024)
  t.ok(log.length < 10_100, 'and not all of it is logged')
})

t.test('the network can be taken away', { skip: !(isRoot && isLinux) && 'not root' }, async (t) => {
  const script = 'cat /proc/net/dev | grep -c : || true'
  t.ok(Number((await shell(script)).stdout) >= 1)
  const without = await shell(script, { network: false }).catch((error: unknown) => error)
  if (without instanceof TaskFailure) t.match(without, { kind: 'refused', message: /network cannot be taken/ })
  else t.match(without, { stdout: '1\n' }, 'but for the loopback of its own')
})

t.test('a cancelled script ends within a second, with all it has started', async (t) => {
  const scripts = [
    'sleep 987602',
    'sleep 987602 & wait',
    "trap '' TERM INT HUP; sleep 987602",
    'command -v setsid > /dev/null && setsid sleep 987602 & sleep 987602',
    '(sleep 987602 > /dev/null 2>&1 &) ; sleep 987602',
  ]
  for (const script of scripts) {
    const controller = new AbortController()
    const running = shell(script, {}, { signal: controller.signal })
    for (let waited = 0; processesWith('sleep 987602').length === 0 && waited < 500; waited++) await delay(10)
    t.ok(processesWith('sleep 987602').length > 0, script)
    controller.abort(new Error('cancelled'))
    await t.rejects(running, { message: 'cancelled' })
    for (let waited = 0; processesWith('sleep 987602').length > 0 && waited < 100; waited++) await delay(10)
    t.same(processesWith('sleep 987602'), [])
  }
})

t.test('what a script leaves behind ends with it', async (t) => {
  const { stdout } = await shell('sleep 987603 & command -v setsid > /dev/null && setsid sleep 987603 & echo done')
  t.equal(stdout, 'done\n')
  for (let waited = 0; processesWith('sleep 987603').length > 0 && waited < 100; waited++) await delay(10)
  t.same(processesWith('sleep 987603'), [])
})

t.test('wrong properties are refused, and scripts where they are not allowed', async (t) => {
  await t.rejects(shell('true', {}, { services: { scripts: false } }), {
    kind: 'refused',
    message: /app.workflows.scripts/,
  })
  const cases: readonly (readonly [Record<string, unknown>, RegExp])[] = [
    [{ language: 'perl' }, /properties.language/],
    [{ files: { '../x': 'a' } }, /no name of a file/],
    [{ files: { '/etc/x': 'a' } }, /no name of a file/],
    [{ files: { 'main.sh': 'a' } }, /main.sh is there already/],
    [{ outputFiles: ['../*'] }, /no name of a file/],
    [{ outputFiles: ['{a,..}/*'] }, /no name of a file/],
    [{ outputFiles: ['{a,.}./{a,..}/*'] }, /no name of a file/],
    [{ outputFiles: ['missing'] }, /left no file missing/],
    [{ env: { 'A B': 'x' } }, /properties/],
    [{ cpuSeconds: 0 }, /properties.cpuSeconds/],
    [{ script: '' }, /properties.script/],
    [{ files: { a: 'busbar:///files/none' } }, /no file/],
  ]
  for (const [properties, message] of cases) await t.rejects(shell('true', properties), { kind: 'refused', message })
})

const python = ['/usr/local/bin', '/usr/bin', '/bin', '/opt/homebrew/bin'].some((folder) =>
  existsSync(`${folder}/python3`),
)

t.test('Python', { skip: !python && 'no python3' }, async (t) => {
  const script = `
import csv, json, os, sys
import helper
rows = list(csv.DictReader(open("orders.csv")))
print("rows", len(rows))
json.dump({"total": helper.add(int(row["price"]) for row in rows), "arg": sys.argv[1]}, open(os.environ["BUSBAR_OUTPUT"], "w"))
`
  const files = { 'orders.csv': 'id,price\n1,20\n2,30\n', 'helper.py': 'def add(all): return sum(all)\n' }
  t.match(await run('script.python', { script, files, args: ['ü'] }), {
    outputs: { total: 50, arg: 'ü' },
    stdout: 'rows 2\n',
  })
  await t.rejects(run('script.python', { script: 'raise ValueError("no such order")' }), {
    kind: 'refused',
    message: /ended with 1.*no such order/s,
  })
  await t.rejects(run('script.python', { script: 'x = bytearray(10**9)', memoryMb: 64 }), { message: /MemoryError/ })
  const controller = new AbortController()
  const waiting = 'import subprocess; subprocess.Popen(["sleep", "987604"], start_new_session=True).wait()'
  const running = run('script.python', { script: waiting }, { signal: controller.signal })
  for (let waited = 0; processesWith('sleep 987604').length === 0 && waited < 500; waited++) await delay(10)
  controller.abort(new Error('cancelled'))
  await t.rejects(running, { message: 'cancelled' })
  for (let waited = 0; processesWith('sleep 987604').length > 0 && waited < 100; waited++) await delay(10)
  t.same(processesWith('sleep 987604'), [])
})

t.test('without Python there is a clear refusal', { skip: python && 'python3 is here' }, async (t) => {
  await t.rejects(run('script.python', { script: 'pass' }), { kind: 'refused', message: /There is no python3/ })
})

t.test('what a killed worker has left on the disk is taken away at the next start', async (t) => {
  const { pid } = spawnSync('true')
  const own = await makeScratch()
  const named = (pid: number) => own.replace(/-\d+-(?=[^-]*$)/, `-${pid}-`)
  const places = { dead: named(pid), alive: named(process.ppid), before: own, other: `${tmpdir()}/busbar-${pid}-test` }
  t.teardown(() => Object.values(places).map((place) => rmSync(place, { recursive: true, force: true })))
  for (const place of Object.values(places)) {
    mkdirSync(place, { recursive: true })
    writeFileSync(`${place}/main.sh`, 'echo secret')
  }
  await clearScratch()
  t.same(
    Object.entries(places).flatMap(([name, place]) => (existsSync(place) ? [name] : [])),
    ['alive', 'other'],
  )
})
