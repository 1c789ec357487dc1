import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { publish } from '../../bus/publish.ts'
import { keyRing } from '../../bus/sealed.ts'
import { invocationSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { listKeys, rotateKeys, shownKeys } from '../../ops/keys.ts'
import { keptSecretKeys, keyIdOf, newKey, readKeyFile, secretKeysOf, writeKeyFile } from '../../ops/secret-keys.ts'
import { loadConfig } from '../../schemas/config/load.ts'
import type { Config } from '../../schemas/config.ts'
import { callHeader } from '../../schemas/functions/call.ts'
import { type Command, startBusbar } from '../support/command.ts'
import { testNats } from '../support/servers.ts'
import { credentialText, envOf, oneOfEach, openOneOfEach, saveCredential, sealOneOfEach } from './sealed-things.ts'

t.setTimeout(120_000)

const many = 120

async function stage(t: Parameters<typeof testNats>[0]) {
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const folder = mkdtempSync(join(tmpdir(), 'busbar-keys-'))
  t.teardown(async () => {
    await bus.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const argv = [`--app.nats.url=${nats.url}`, `--busbar.data=${folder}`]
  const configured = (more: readonly string[] = []): Config => loadConfig({ env: {}, argv: [...argv, ...more] }).values
  return { bus, folder, argv, configured, config: configured() }
}

t.test('keys are rotated', async (t) => {
  const { bus, folder, argv, config, configured } = await stage(t)
  const file = keptSecretKeys(folder)
  const first = readKeyFile(file)[0]!
  const ring = keyRing(() => readKeyFile(file))!
  const names = Array.from({ length: many }, (_, index) => `SECRET_${index}`)
  // More batches at once than a server admits.
  await Promise.all(names.map((name) => saveCredential(bus, ring, name, `text of ${name}`)))
  await sealOneOfEach(bus, ring)
  const opensAll = async (t: Pick<Test, 'strictSame'>, title: string) => {
    const now = keyRing(readKeyFile(file))!
    const texts = await Promise.all(names.map((name) => credentialText(bus, now, name)))
    t.strictSame([texts, await openOneOfEach(bus, now)], [names.map((name) => `text of ${name}`), oneOfEach], title)
  }
  const rotate = async (more: Config = config) => {
    const told: string[] = []
    await rotateKeys(more, folder, { tell: (line) => told.push(line), settleMs: 100 })
    return told.join('\n')
  }

  await t.test('by a command that is killed again and again', async (t) => {
    t.equal(statSync(file).mode & 0o777, 0o600)
    let mixed = 0
    for (const after of [0, 1, 60]) {
      let seen = 0
      const killed = Promise.withResolvers<void>()
      const command = startBusbar(['keys', 'rotate', ...argv])
      const kill = () => {
        command.process.kill('SIGKILL')
        killed.resolve()
      }
      const watching = bus.connection.subscribe('evt.workflows.credential.*', {
        callback: () => {
          if (++seen === after) kill()
        },
      })
      if (after === 0) void command.printed('seals from now on').then(kill)
      await killed.promise
      await command.finished
      watching.unsubscribe()
      await opensAll(t, `killed after ${after}`)
      const used = (await listKeys(config, folder)).filter(({ uses }) => (uses.credentials ?? 0) > 0)
      if (used.length === 2) mixed++
      t.equal(readKeyFile(file).length, 2, 'a rotation that goes on makes no other key')
    }
    t.ok(mixed >= 2, 'some lay under the one key, some under the other')
  })

  await t.test('to the end, while others save what they like', async (t) => {
    let isDone = false
    const saving = (async () => {
      for (let number = 0; !isDone; number++) {
        const name = `SECRET_${many + number}`
        names.push(name)
        await saveCredential(bus, ring, name, `text of ${name}`)
        // Once more: a new version of what is being sealed anew.
        await saveCredential(bus, ring, names[number]!, `text of ${names[number]}`)
      }
    })()
    const told = await rotate()
    isDone = true
    await saving
    t.match(told, /^going on with a rotation to/)
    t.match(told, /credentials: \d+ sealed anew/)
    t.match(told, new RegExp(`${keyIdOf(first)} is thrown away`))
    t.equal(readKeyFile(file).length, 1)
    t.not(readKeyFile(file)[0], first)
    t.equal(statSync(file).mode & 0o777, 0o600)
    await opensAll(t, 'everything')
    const listing = await listKeys(config, folder)
    t.match(listing, [
      {
        id: keyIdOf(readKeyFile(file)[0]!),
        role: 'seals',
        uses: {
          credentials: names.length,
          'webhook secrets': 1,
          'passwords of users': 1,
          'signing keys of tokens': 1,
          'secrets of functions': 1,
          'passwords of database instances': 1,
        },
      },
    ])
    t.equal(listing.length, 1)
    t.match(shownKeys(listing), /^\S+ {2}seals {4}\d+ credentials, 1 webhook secrets/)
    t.notOk(shownKeys(listing).includes(readKeyFile(file)[0]!.slice(-44)))
  })

  await t.test('one at a time', async (t) => {
    const command: Command = startBusbar(['keys', 'rotate', ...argv])
    await command.printed('waiting')
    await t.rejects(rotate(), { name: 'OperatorError', message: /being rotated already/ })
    command.process.kill('SIGKILL')
    await command.finished
    t.match(await rotate(), /going on/, 'the lock of a process that is gone holds nobody up')
    await opensAll(t, 'everything')
  })

  await t.test('and one that a waiting call needs is kept', async (t) => {
    const { envSeq } = await envOf(bus, 'hello')
    const call = { id: 'waiting', fn: 'hello', rev: 1, seq: 1, env: 1, envSeq, at: 1 }
    const headers = { [callHeader]: JSON.stringify(call) }
    const { seq } = await publish(bus, { subject: invocationSubject('waiting'), headers })
    const [before] = readKeyFile(file)
    t.match(await rotate(), /is kept: 1 waiting calls of functions/)
    t.ok(readKeyFile(file).includes(before!))
    t.match(shownKeys(await listKeys(config, folder)), /opens {4}1 waiting calls of functions/)
    await bus.manager.streams.deleteMessage('INVOCATIONS', seq)
    t.match(await rotate(), /is thrown away/)
    await opensAll(t, 'everything')
  })

  await t.test('keys of the configuration are for the operator to change', async (t) => {
    const [current] = readKeyFile(file)
    const next = newKey()
    await t.rejects(rotate(configured([`--app.secrets.keys=${current}`])), {
      name: 'OperatorError',
      message: /keys new/,
    })
    const told = await rotate(configured([`--app.secrets.keys=${next},${current}`]))
    t.match(told, new RegExp(`nothing needs ${keyIdOf(current!)} any more: take it out`))
    t.strictSame(readKeyFile(file), [current], 'the file is not theirs')
    t.match(await listKeys(config, folder), [{ uses: {} }, { id: keyIdOf(next), role: 'missing' }])
    writeKeyFile(file, [next])
    await opensAll(t, 'with the next one alone')
  })

  await t.test('what cannot be opened, or nobody knows, stays and stops nothing', async (t) => {
    const lost = keyRing([newKey().replace(/^[^:]+/, 'lost')])!
    await saveCredential(bus, lost, 'LOST', 'nobody opens it')
    const sealed = ring.seal('novelty', 'novelty/1/')
    const body = JSON.stringify({ facts: [], state: { version: 1, data: { deep: [sealed] } } })
    await publish(bus, { subject: 'evt.workflows.novelty.one', body })
    const [before] = readKeyFile(file)
    const told = await rotate()
    t.match(told, /evt\.workflows\.credential\.id-LOST stays as it is: There is no key lost/)
    t.match(told, /is kept: 1 other things need it/)
    t.ok(readKeyFile(file).includes(before!))
    t.match(shownKeys(await listKeys(config, folder)), /^lost +missing +1 credentials$/m)
    await opensAll(t, 'everything else')
  })
})

t.test('a ring follows its file', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-keys-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = keptSecretKeys(folder)
  t.equal(keptSecretKeys(folder), file)
  const config = (more: string[]) => loadConfig({ env: {}, argv: more }).values
  const keys = secretKeysOf(config([`--app.secrets.keys-file=${file}`]))
  const ring = keyRing(keys)!
  const old = ring.seal('text', 'a/1')
  const [first] = readKeyFile(file)
  const second = newKey()
  t.not(keyIdOf(second), keyIdOf(first!))
  writeKeyFile(file, [second, first!])
  t.equal(ring.keyId, keyIdOf(second))
  t.equal(ring.seal('text', 'a/1').keyId, keyIdOf(second), 'without a new start')
  t.equal(ring.open(old, 'a/'), 'text')
  t.equal(ring.open(keyRing([second])!.seal('other', 'a/1'), 'a/'), 'other')
  t.equal(secretKeysOf(config([])), undefined)
  t.strictSame(secretKeysOf(config([`--app.secrets.keys=${first}`])), [first])
  const refused: readonly (readonly [string, RegExp])[] = [
    ['', /it is empty/],
    ['nonsense\n', /entry 1/],
    [`${first}\nx:QUJD\n`, /entry 2/],
    [`${first}\n${first}\n`, /entry 2 has the id of another/],
  ]
  for (const [text, message] of refused) {
    writeFileSync(file, text)
    const path = `--app.secrets.keys-file=${file}`
    t.throws(() => secretKeysOf(config([path])), { name: 'OperatorError', message })
  }
  t.throws(() => secretKeysOf(config(['--app.secrets.keys-file=/nowhere/keys'])), { message: /ENOENT/ })
  t.equal(readFileSync(file, 'utf8').includes('QUJD'), false)
  await t.rejects(listKeys(config([]), '/nowhere'), { name: 'OperatorError', message: /There are no keys/ })
})
