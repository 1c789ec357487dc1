import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  applyParameters,
  checkParameters,
  listParameters,
  restartWithParameters,
} from '../../workers/provisioning/local/parameters/postgres-parameters.ts'
import { withSession } from '../../workers/provisioning/local/postgres-session.ts'
import { careGround } from './care-node.ts'

t.setTimeout(240_000)
const ground = careGround(t)
const node = await ground.create('shop')
const show = (name: string) =>
  withSession(
    node,
    async (client) =>
      (await client.query<{ value: string }>('select current_setting($1) as value', [name])).rows[0]!.value,
  )
const systemFile = () => readFileSync(join(node.dataFolder, 'postgresql.auto.conf'), 'utf8')

t.test('what a reload can do is in force at once, the rest waits for the restart', async (t) => {
  const { plan, pendingRestart } = await applyParameters(node, { work_mem: '9MB', max_locks_per_transaction: '128' })
  t.match(plan, { reload: ['work_mem'], restart: ['max_locks_per_transaction'] })
  t.strictSame(pendingRestart, ['max_locks_per_transaction'])
  t.strictSame([await show('work_mem'), await show('max_locks_per_transaction')], ['9MB', '64'])
  const list = await listParameters(node)
  t.match(
    list.find(({ name }) => name === 'max_locks_per_transaction'),
    { value: '64', pending: '128', effect: 'restart', source: 'user' },
  )
  t.match(
    list.find(({ name }) => name === 'work_mem'),
    { value: '9MB', pending: null, effect: 'reload', source: 'user' },
  )
  t.match(
    list.find(({ name }) => name === 'archive_command'),
    { value: 'managed', source: 'platform' },
  )
  t.strictSame(await restartWithParameters(ground.control, node), { applied: true, reason: null })
  t.equal(await show('max_locks_per_transaction'), '128')
  await applyParameters(node, { work_mem: null })
  t.equal(await show('work_mem'), '4MB')
})

t.test('a refused set leaves everything as it was', async (t) => {
  const before = systemFile()
  await t.rejects(applyParameters(node, { work_mem: '20MB', timezone: 'Nowhere/At_All' }), {
    status: 400,
    field: 'parameters.TimeZone',
    message: /invalid value/,
  })
  await t.rejects(applyParameters(node, { work_mem: '20MB', no_such: '1' }), {
    status: 400,
    field: 'parameters.no_such',
    message: /no parameter/,
  })
  await t.rejects(applyParameters(node, { port: null }), { status: 400, message: /to reset/ })
  await t.rejects(checkParameters(node, { fsync: 'off' }), { status: 400, message: /managed by the platform/ })
  t.equal(systemFile(), before)
  t.equal(await show('work_mem'), '4MB')
})

t.test('a server that does not start with them runs again with the last good ones', async (t) => {
  const before = systemFile()
  // Fits the range, and no machine has it.
  await applyParameters(node, { shared_memory_type: 'mmap', min_dynamic_shared_memory: '900TB' })
  const outcome = await restartWithParameters(ground.control, node)
  t.match(outcome, { applied: false, reason: /.{10,}/ })
  t.notMatch(outcome.reason, /\/\w+\//)
  t.equal(systemFile(), before)
  t.equal(await show('min_dynamic_shared_memory'), '0')
  t.notOk(existsSync(join(node.dataFolder, 'postgresql.auto.conf.good')))
  await applyParameters(node, { work_mem: '5MB' })
  t.equal(await show('work_mem'), '5MB')
})
