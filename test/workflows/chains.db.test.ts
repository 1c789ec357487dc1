import t from 'tap'
import { workflowStage } from './stage.ts'

const { ask, save, execute, inStatus, until, faults } = await workflowStage(t)

const links = 50
const started = async (name: string) => {
  const { headers } = await ask('GET', `/executions?q=${name}&limit=1`)
  return Number(headers.get('X-Total-Count'))
}

t.test('a flow that is its own sub-flow fails at the end of a chain, and so do all that wait for it', async (t) => {
  const id = await save('name: endless\ntasks: [{name: again, type: core.subflow, properties: {flowId: endless}}]')
  const { execution } = await inStatus(await execute(id), 'FAILED')
  t.match(execution.error, /Flows have started each other 50 times in a row/)
  t.equal(await started('endless'), links + 1)
})

t.test('so does a ring of sub-flows and listeners', async (t) => {
  await save('name: relay\ntasks: [{name: on, type: core.subflow, properties: {flowId: ring, wait: false}}]')
  const id = await save(
    'name: ring\ntasks: [{name: note, type: util.log, properties: {message: x}}]\nlisteners: [{on: SUCCESS, flow: relay}]',
  )
  await execute(id)
  const last = await until(async () => {
    const { json } = await ask('GET', '/executions?q=ring&limit=1')
    return json[0]?.trigger.depth === links ? json[0] : null
  })
  await inStatus(last.id, 'SUCCESS')
  t.equal((await started('ring')) + (await started('relay')), links + 1)
  t.strictSame(faults, [])
})
