import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { testDocker } from '../support/docker-wire.ts'
import { failure } from './call-plugin.ts'
import { runPlugin as run, services } from './run-plugin.ts'

t.setTimeout(60_000)

t.test('containers', async (t) => {
  const docker = await testDocker(t)
  const inContainer = (properties: Record<string, unknown>, signal?: AbortSignal, id = 'script.shell') =>
    run(id, { runner: 'container', ...properties }, { containers: docker.path }, signal)

  t.test('a script runs as nobody in a folder of its own, within limits, and what it leaves is taken', async (t) => {
    docker.behaviour = {
      stdout: 'line one\nline two\n',
      stderr: 'careful\n',
      left: { '.busbar-output.json': '{"n":1}', 'out/1.csv': 'one', 'note.txt': 'note' },
    }
    const ended = await inContainer({
      script: 'cat',
      args: ['x y'],
      env: { TOKEN: 'word' },
      stdin: 'in',
      files: { 'sub/a.txt': 'a text' },
      outputFiles: ['out/*.csv'],
      network: false,
      memoryMb: 64,
      processes: 8,
    })
    t.match(ended, {
      exitCode: 0,
      stdout: 'line one\nline two\n',
      stderr: 'careful\n',
      outputs: { n: 1 },
      truncated: false,
    })
    t.same(Object.keys(ended.files), ['out/1.csv'])
    t.equal(String(await services.files.get(ended.files['out/1.csv']!.uri)), 'one')
    t.match(ended.log, [{ message: 'line one' }, { message: 'line two' }, { level: 'warn', message: 'careful' }])
    const [{ settings, files }] = docker.made.slice(-1) as [(typeof docker.made)[number]]
    t.match(settings, {
      Image: 'alpine:3',
      Cmd: ['/bin/sh', '-c', 'exec "$@" < /work/.busbar-stdin', 'sh', 'sh', '-e', '/work/main.sh', 'x y'],
      User: '65534:65534',
      WorkingDir: '/work',
      NetworkDisabled: true,
      HostConfig: {
        NetworkMode: 'none',
        Memory: 64 * 1024 ** 2,
        PidsLimit: 8,
        CapDrop: ['ALL'],
        SecurityOpt: ['no-new-privileges'],
      },
    })
    t.notOk(/Binds|Mounts|Privileged|Devices/.test(JSON.stringify(settings)), 'nothing of the machine')
    t.ok((settings.Env as string[]).includes('TOKEN=word'))
    t.match(Object.fromEntries(files), {
      'work/main.sh:65534': 'cat',
      'work/sub/a.txt:65534': 'a text',
      'work/.busbar-stdin:65534': 'in',
    })
    t.equal(docker.containers.size, 0)
  })
  t.test('a command of an image, and what the image is made for', async (t) => {
    docker.behaviour = { stdout: '{"v":16}' }
    t.match(await inContainer({ image: 'psql:16', command: ['psql', '--version'] }), { outputs: { v: 16 } })
    t.match(docker.made.at(-1)!.settings, { Image: 'psql:16', Cmd: ['psql', '--version'] })
    await inContainer({ image: 'psql:16' })
    t.notOk('Cmd' in docker.made.at(-1)!.settings)
    await inContainer({ script: 'print(1)' }, undefined, 'script.python')
    t.match(docker.made.at(-1)!.settings, { Image: 'python:3-alpine', Cmd: ['python3', '-u', '-B', '/work/main.py'] })
  })
  t.test('an image that is not there is brought', async (t) => {
    await inContainer({ script: ':', image: 'ghcr.io/acme/tool' })
    await inContainer({ script: ':', image: 'acme/tool@sha256:0123' })
    t.same(docker.pulled, ['ghcr.io/acme/tool:latest', 'acme/tool@sha256:0123'])
    await t.rejects(inContainer({ script: ':', image: 'none' }), { kind: 'refused', message: /manifest unknown/ })
  })
  t.test('what is left of an attempt before goes first', async (t) => {
    docker.behaviour = { endless: true }
    const stopping = new AbortController()
    const running = inContainer({ script: 'sleep 1000' }, stopping.signal)
    // It may fail as soon as its container is gone, before anybody asks how it ended.
    running.catch(() => undefined)
    while (![...docker.containers.values()].some(({ isStarted }) => isStarted)) await delay(5)
    const [name] = docker.containers.keys()
    const first = docker.containers.get(name!)
    const later = new AbortController()
    const next = inContainer({ script: 'sleep 1000' }, later.signal)
    while (docker.made.at(-1) === first || !docker.made.at(-1)!.isStarted) await delay(5)
    stopping.abort(new Error('cancelled'))
    await t.rejects(running, /cancelled|Connection|No such container/)
    t.same([...docker.containers.keys()], [name], 'the end of the one before leaves it alone')
    later.abort(new Error('cancelled'))
    await t.rejects(next, /cancelled/)
    t.equal(docker.containers.size, 0)
  })
  t.test('its end can be a failure, and a cancelled one is removed', async (t) => {
    docker.behaviour = { exitCode: 3, stderr: 'no such order\n' }
    await t.rejects(inContainer({ script: 'x' }), { kind: 'refused', message: /ended with 3: no such order/ })
    docker.behaviour = { exitCode: 75 }
    await t.rejects(inContainer({ script: 'x' }), failure('unavailable'))
    docker.behaviour = { endless: true }
    const stopping = new AbortController()
    const running = inContainer({ script: 'x' }, stopping.signal)
    while (![...docker.containers.values()].some(({ isStarted }) => isStarted)) await delay(5)
    stopping.abort(new Error('cancelled'))
    await t.rejects(running, /cancelled/)
    t.equal(docker.containers.size, 0)
    while (docker.sockets.size > 0) await delay(5)
  })
  t.test('without an engine, or the right to one, it is refused', async (t) => {
    const script = { runner: 'container', script: ':' }
    await t.rejects(run('script.shell', script), { kind: 'refused', message: /no container engine/ })
    await t.rejects(run('script.shell', script, { containers: '/nonexistent/engine.sock' }), {
      kind: 'refused',
      message: /no container engine on this worker/,
    })
    await t.rejects(run('script.shell', script, { containers: docker.path, scripts: false }), {
      message: /app.workflows.scripts/,
    })
    await t.rejects(run('script.shell', { script: ':', command: ['ls'] }), { message: /need the runner/ })
    await t.rejects(run('script.shell', {}), { message: /properties\.script is needed/ })
    await t.rejects(inContainer({ script: ':', files: { '../x': '' } }), { message: /no name that is free/ })
  })
})
