import t from 'tap'
import { workflowStage } from './stage.ts'

const stage = await workflowStage(t)
const { ask, save, execute, inStatus, until, faults } = stage

const yamlContent = `name: hear
namespace: ops
inputs:
  text: string
  said: { type: string, default: nothing }
tasks:
  - name: note
    type: util.log
    properties: { message: '{{ inputs.text }}' }
listeners:
  - { on: SUCCESS, flow: no-such-flow }
`
await ask('POST', '/flows', { body: { name: 'hear', namespace: 'ops', yamlContent } })

const listeners = (sla = '1h') => `
sla: ${sla}
listeners:
  - on: [SUCCESS]
    flow: hear
    namespace: ops
    inputs: { text: '{{ execution.flowName }} {{ execution.status }}', said: '{{ outputs.first.message }}' }
  - on: [FAILED, CANCELLED, TIMED_OUT, SLA_MISSED]
    flow: hear
    namespace: ops
    inputs: { text: '{{ execution.flowName }} {{ execution.status }} {{ failure.message }}' }
`

/** Inputs of the executions that were started for one, when there are so many. */
async function heard(executionId: string, count: number) {
  const of = async () => {
    const { json } = await ask('GET', '/executions?namespace=ops&limit=100')
    const all = (json as { trigger: { executionId: string }; inputs: { text: string } }[]).filter(
      ({ trigger }) => trigger.executionId === executionId,
    )
    return all.length >= count ? all : null
  }
  return (await until(of)).map(({ trigger, inputs }) => ({ trigger, inputs }))
}

t.test('flows that listen are started with what the execution has come to, once', async (t) => {
  const good = await execute(
    await save(`name: good\ntasks: [{name: first, type: util.log, properties: {message: hello}}]${listeners()}`),
  )
  t.match(await heard(good, 1), [
    {
      trigger: { type: 'listener', flowName: 'good', status: 'SUCCESS' },
      inputs: { text: 'good SUCCESS', said: 'hello' },
    },
  ])
  const bad = await execute(
    await save(`name: bad\ntasks: [{name: first, type: core.fail, properties: {message: no}}]${listeners()}`),
  )
  t.match(await heard(bad, 1), [{ inputs: { text: /^bad FAILED no/, said: 'nothing' } }])
  const stopped = await execute(
    await save(`name: stopped\ntasks: [{name: first, type: core.wait, properties: {duration: 1h}}]${listeners()}`),
  )
  await inStatus(stopped, 'RUNNING')
  await ask('POST', `/executions/${stopped}/cancel`)
  t.match(await heard(stopped, 1), [{ inputs: { text: /^stopped CANCELLED/ } }])
  // Whatever is done twice starts nothing twice.
  const { json } = await ask('GET', '/executions?namespace=ops&limit=100')
  t.equal(json.length, 3)
})

t.test('one that takes longer than it should goes on, and is told of once', async (t) => {
  const slow = await execute(
    await save(
      `name: slow\ntasks: [{name: first, type: core.wait, properties: {duration: 1500ms}}]${listeners('100ms')}`,
    ),
  )
  t.match(await heard(slow, 1), [{ trigger: { status: 'SLA_MISSED' }, inputs: { text: /^slow SLA_MISSED/ } }])
  await inStatus(slow, 'SUCCESS')
  t.same((await heard(slow, 2)).map(({ inputs }) => inputs.text.trim()).sort(), ['slow SLA_MISSED', 'slow SUCCESS'])
  const { json } = await ask('GET', `/executions/${slow}/events`)
  t.equal(JSON.stringify(json).split('sla-missed').length - 1, 1)
  const fast = await execute(
    await save(`name: fast\ntasks: [{name: first, type: util.log, properties: {message: m}}]${listeners()}`),
  )
  t.match(await heard(fast, 1), [{ trigger: { status: 'SUCCESS' } }])
})

t.test('who waits for an execution that is cancelled goes on', async (t) => {
  const waits = 'tasks: [{name: first, type: core.wait, properties: {duration: 1h}}]'
  const one = await save(`name: one-at-a-time\nconcurrency: 1\n${waits}`)
  const [first, second] = [await execute(one), await execute(one)]
  await inStatus(first, 'RUNNING')
  await ask('POST', `/executions/${first}/cancel`)
  await inStatus(second, 'RUNNING')
  const inner = await save(`name: inner\n${waits}`)
  const outer = await execute(
    await save(`name: outer\ntasks: [{name: child, type: core.subflow, properties: {flowId: ${inner}}}]`),
  )
  const child = await until(async () => (await ask('GET', `/executions?flowId=${inner}`)).json[0]?.id ?? null)
  await inStatus(child, 'RUNNING')
  await ask('POST', `/executions/${child}/cancel`)
  const { execution } = await inStatus(outer, 'FAILED', 'CANCELLED')
  t.match(execution, { status: 'FAILED', failedTask: 'child' })
})

t.test('what is wrong with them is told with its place', async (t) => {
  const { json } = await ask('POST', '/flows/validate', {
    body: {
      yamlContent: `name: wrong
sla: soon
tasks: [{name: first, type: util.log, properties: {message: m}}]
listeners:
  - { on: [DONE], flow: x }
  - { on: SUCCESS }
  - { on: SUCCESS, flow: x, inputs: { a: '{{ outputs.nobody.x }}' } }
`,
    },
  })
  t.match(
    json.errors.map(({ line, message }: { line: number; message: string }) => `${line} ${message}`),
    [/^2 must be a duration/, /^5 can hold SUCCESS, .* not DONE/, /^6 needs flow/, /^7 .*nobody/],
  )
  t.same(faults, [])
})
