import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { listDead } from '../../bus/dead.ts'
import { publish } from '../../bus/publish.ts'
import { dueSubject, eventSubject, executionSubject, taskSubject } from '../../bus/subject.ts'
import { knownCommand } from '../../schemas/workflows/execution-decide.ts'
import { tickPurpose } from '../../schemas/workflows/trigger-ticks.ts'
import { startScheduler } from '../../workers/scheduler/scheduler.ts'
import { log } from '../../workers/workflows/plugins/core/log.ts'
import { wait } from '../../workers/workflows/plugins/core/wait.ts'
import { ended, engineOf, engineStage, run, save } from './engine-stage.ts'
import { flow as plan, sequence, task } from './plans.ts'

t.test('a message that nobody can read lies in DEAD, and those around it are handled', async (t) => {
  const { bus } = await engineStage(t)
  const onObservation = () => undefined
  const engine = await engineOf(bus, [log, wait], { onObservation })
  const scheduler = await startScheduler({ bus, changeStream: 'cdc-stream', source: 'main', onObservation })
  t.teardown(async () => {
    await scheduler.stop()
    await engine.stop()
  })
  const steps = ['a', 'b'].map((name) => task(name, { properties: { message: name } }))
  const moment = task('moment', { type: 'core.wait', properties: { duration: '10ms' } })
  const both = task('c', { needs: ['moment'], properties: { message: 'c' } })
  // Through every queue: what is parallel, and what a timer wakes.
  const flowId = await save(bus, plan([...sequence(...steps), moment, both]))
  const poison = [
    [eventSubject('executions', 'execution', 'bad'), 'no message', 'workers-workflows-executions'],
    [executionSubject('bad'), 'no command', 'workers-workflows-commands'],
    [executionSubject('worse'), '{}', 'workers-workflows-commands'],
    [taskSubject('default', 'bad'), 'no task', 'workers-workflows-tasks-default'],
    [dueSubject('executions', 'bad'), 'no timer', 'workers-workflows-timers'],
    [dueSubject(tickPurpose, 'bad'), 'no tick', 'workers-scheduler-ticks'],
  ] as const
  const ids = [await run(bus, flowId)]
  for (const [subject, body] of poison) {
    await publish(bus, { subject, body })
    ids.push(await run(bus, flowId))
  }
  for (const id of ids) t.equal((await ended(bus, id)).stage, 'success')
  let letters = await listDead(bus)
  for (; letters.length < poison.length; letters = await listDead(bus)) await sleep(10)
  const shown = (rows: readonly (readonly [string, string, string])[]) => rows.map((row) => row.join(' ')).sort()
  t.same(
    shown(letters.map(({ subject, body, consumer }) => [subject, Buffer.from(body).toString(), consumer])),
    shown(poison),
  )
  t.same([...new Set(letters.map(({ deliveryCount }) => deliveryCount))], [1], 'each at once')
})

t.test('a command that a newer program may know is not given up at once', async (t) => {
  t.throws(() => knownCommand({ type: 'later' }), { name: 'TypeError', message: /later is no command/ })
  t.throws(() => knownCommand(null), { name: 'MessageInvalid' })
  t.same(knownCommand({ type: 'nudge' }), { type: 'nudge' })
})
