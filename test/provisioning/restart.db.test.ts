import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { shutDownSupervisor } from '../../workers/provisioning/supervisor/client.ts'
import { supervisorSocket } from '../../workers/provisioning/supervisor/place.ts'
import { startCommand } from '../support/command.ts'
import { eventually, leftovers, platform, query } from './platform.ts'

t.setTimeout(120_000)

const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'FREE' }

t.test('servers come back whoever has their numbers and ports by then; nobody else is touched', async (t) => {
  const installed = findAllPostgres('/usr/bin:/bin', unprivilegedAccount(tmpdir()))
  const p = await platform(t, { worker: false, postgres: async () => installed })
  const worker = await p.startWorker()
  const made = await p.call('POST', '/api/provision?wait=60', shop)
  t.equal(made.status, 201, JSON.stringify(made.body))
  const data = join(p.home, 'instances', made.body.id, 'members/m1/data')
  const postmaster = () => Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
  const { connectionUrl: url } = (await p.call('GET', '/api/provision/shop/credentials')).body
  const account = unprivilegedAccount(join(p.home, 'instances'))
  const stranger = spawn('/bin/sleep', ['300'], { cwd: '/', stdio: 'ignore', ...account })
  t.teardown(() => stranger.kill('SIGKILL'))

  await worker.stop()
  await shutDownSupervisor(p.home)
  // As after the end of a machine: its number is another's now, and so is its port.
  writeFileSync(join(data, 'postmaster.pid'), `${stranger.pid}\n${data}\n`)
  const squatter = createServer((socket) => socket.destroy())
  await new Promise<void>((listening) => squatter.listen(made.body.port, '127.0.0.1', listening))
  let current = await p.startWorker()
  await eventually(async () => {
    const { status, statusReason } = (await p.call('GET', '/api/provision/shop')).body
    if (status !== 'FAILED' || !/port is taken by another program/.test(statusReason)) throw new Error(statusReason)
  })
  await new Promise((closed) => squatter.close(closed))
  t.same(await eventually(() => query(url, 'select 1 as one')), [{ one: 1 }])
  t.equal(stranger.exitCode ?? stranger.signalCode, null)

  await t.test('but not while nothing can look after them, which is a state with a reason', async (t) => {
    await current.stop()
    await shutDownSupervisor(p.home)
    const inTheWay = supervisorSocket(p.home)
    mkdirSync(join(inTheWay, 'of somebody else'), { recursive: true })
    current = await p.startWorker()
    await eventually(async () => {
      const { status, statusReason } = (await p.call('GET', '/api/provision/shop')).body
      if (status !== 'FAILED' || !/supervisor .* does not start/.test(statusReason)) throw new Error(statusReason)
    })
    rmSync(inTheWay, { recursive: true })
    t.same(await eventually(() => query(url, 'select 1 as one')), [{ one: 1 }])
    await eventually(async () => {
      const { status, statusReason } = (await p.call('GET', '/api/provision/shop')).body
      if (status !== 'ACTIVE') throw new Error(statusReason)
    })
  })

  await t.test('also after a deletion that was refused', async (t) => {
    const mark = join(p.home, 'instances', made.body.id, 'instance.json')
    const own = readFileSync(mark, 'utf8')
    writeFileSync(mark, '{"uid":"another"}')
    t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 500)
    writeFileSync(mark, own)
    process.kill(postmaster(), 'SIGKILL')
    t.same(await eventually(() => query(url, 'select 1 as one'), 20_000), [{ one: 1 }])
  })

  // Root alone has servers of another account.
  const visitor = account === undefined ? null : spawn('/bin/sleep', ['300'], { cwd: data, stdio: 'ignore' })
  t.teardown(() => visitor?.kill('SIGKILL'))
  // Its program was uninstalled meanwhile.
  installed.length = 0
  t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 200)
  t.notOk(existsSync(data))
  t.equal(visitor?.exitCode ?? visitor?.signalCode ?? null, null, 'an administrator looked around in the folder')
  const left = visitor === null ? null : once(visitor, 'exit')
  visitor?.kill('SIGKILL')
  await left
  t.strictSame(leftovers(p.home), [])
})

t.test('where others can write a supervisor listens only in a folder of its own', async (t) => {
  const home = join(tmpdir(), 'x'.repeat(120))
  const folder = dirname(supervisorSocket(home))
  t.teardown(() => rmSync(folder, { recursive: true }))
  t.equal(statSync(folder).mode & 0o777, 0o700)
  chmodSync(folder, 0o777)
  t.throws(() => supervisorSocket(home), { message: /is not ours alone/ })
})

t.test('of supervisors that begin at the same time behind a dead one, one is', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-lock-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'supervisor.pid')
  const module = resolve(import.meta.dirname, '../../workers/provisioning/supervisor/lock.ts')
  const source = `
    const { takeLock } = await import(${JSON.stringify(module)})
    process.once('message', async () => {
      const lock = await takeLock(${JSON.stringify(file)})
      console.log(lock === null ? 'not' : 'one')
      setTimeout(() => process.exit(), 1_000)
    })
    console.log('ready')`
  for (const left of ['1 2', '', null]) {
    if (left === null) rmSync(file, { force: true })
    else writeFileSync(file, left)
    const all = Array.from({ length: 6 }, () => startCommand(process.execPath, ['--input-type=module', '-e', source]))
    await Promise.all(all.map((each) => each.printed('ready')))
    for (const { process } of all) process.send('go')
    const told = await Promise.all(all.map(async ({ finished }) => (await finished).stdout.trim().split('\n').at(-1)))
    t.equal(told.filter((word) => word === 'one').length, 1, `${left}: ${told}`)
  }
})
