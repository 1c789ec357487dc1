import t from 'tap'
import { platformSubjects } from '../../bus/subject.ts'
import { nextTick, ticksBetween } from '../../schemas/cron.ts'
import { wantsChange } from '../../schemas/data/change-filter.ts'
import { readFlow } from '../../schemas/workflows/flow-yaml.ts'
import {
  decideDeleteTrigger,
  decideEnableTrigger,
  decideFired,
  decideSaveTrigger,
  type Saved,
  type SavedTrigger,
  type TriggerFact,
  type TriggerState,
  trigger,
} from '../../schemas/workflows/trigger.ts'
import { firedExecution } from '../../schemas/workflows/trigger-fire.ts'
import { webhookKeyChanges } from '../../schemas/workflows/trigger-key.ts'
import { type TriggerType, triggerMistake } from '../../schemas/workflows/trigger-plan.ts'
import { signatureMistake, signatureOf } from '../../schemas/workflows/trigger-signature.ts'
import { dueTicks, nextTriggerTick, triggerTicks } from '../../schemas/workflows/trigger-ticks.ts'
import { flow as planOf } from './plans.ts'

const at = (text: string) => Date.parse(text)
const saved = (more: Partial<Saved> = {}): Saved => ({
  triggerId: 't1',
  flowId: 'f1',
  name: 'nightly',
  type: 'cron',
  enabled: true,
  config: { cron: '0 * * * *' },
  inputs: {},
  declared: false,
  by: 'ada',
  at: at('2026-01-01T00:00:00Z'),
  ...more,
})
const fold = (...facts: readonly TriggerFact[]) => facts.reduce(trigger.evolve, trigger.initial as TriggerState)
const given = (one: Partial<Saved> = {}) => fold(...decideSaveTrigger(trigger.initial, saved(one))) as SavedTrigger

t.test('ticks follow the clock of the zone', async (t) => {
  const table: [string, string, string, string[]][] = [
    // The hour that is left out: its times come at the end of the gap.
    ['30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', ['2026-03-29T01:00:00Z', '2026-03-30T00:30:00Z']],
    // The hour that comes twice: a time of day is taken once, a wildcard each time.
    ['30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', ['2026-10-25T00:30:00Z', '2026-10-26T01:30:00Z']],
    ['30 * * * *', 'Europe/Berlin', '2026-10-25T00:00:00Z', ['2026-10-25T00:30:00Z', '2026-10-25T01:30:00Z']],
    ['0 * * * *', 'America/New_York', '2026-11-01T04:30:00Z', ['2026-11-01T05:00:00Z', '2026-11-01T06:00:00Z']],
    ['0 9 * * MON-FRI', 'America/New_York', '2026-03-06T15:00:00Z', ['2026-03-09T13:00:00Z', '2026-03-10T13:00:00Z']],
    // Half an hour of summer.
    ['0 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00:00Z', ['2026-10-03T15:30:00Z', '2026-10-04T15:00:00Z']],
    ['@daily', 'Asia/Kolkata', '2026-11-01T04:00:00Z', ['2026-11-01T18:30:00Z', '2026-11-02T18:30:00Z']],
    ['*/20 * * * * *', 'UTC', '2026-11-01T04:00:00.500Z', ['2026-11-01T04:00:20Z', '2026-11-01T04:00:40Z']],
    ['0 0 29 FEB *', 'UTC', '2026-01-01T00:00:00Z', ['2028-02-29T00:00:00Z', '2032-02-29T00:00:00Z']],
  ]
  for (const [cron, timezone, after, expected] of table) {
    const wanted = expected.map(at)
    const first = nextTick({ cron, timezone }, at(after))!
    t.same([first, nextTick({ cron, timezone }, first)], wanted, `${cron} ${timezone}`)
    t.same(ticksBetween({ cron, timezone }, at(after), wanted[1]!, 10), wanted, 'looking back finds the same')
    t.same(ticksBetween({ cron, timezone }, at(after), wanted[1]! - 1, 10), wanted.slice(0, 1), 'none too early')
    t.same(ticksBetween({ cron, timezone }, first, wanted[1]!, 10), wanted.slice(1), 'the first is not there twice')
  }
})

t.test('missed ticks follow the policy, up to a bound', async (t) => {
  const now = at('2026-01-01T05:00:03Z')
  const hour = (hour: number) => at('2026-01-01T00:00:00Z') + hour * 3_600_000
  const due = (onMissed: string | undefined, lastTick: number | null, time = now) => {
    const config = { cron: '0 * * * *', ...(onMissed && { onMissed }) }
    return dueTicks({ ...given({ config }), lastTick }, time)
  }
  t.same(due(undefined, null), { run: [hour(5)], last: hour(5) })
  t.same(due('skip', null, now + 60_000), { run: [], last: hour(5) })
  t.same(due('last', null, now + 60_000), { run: [hour(5)], last: hour(5) })
  t.same(due('all', hour(2)), { run: [hour(3), hour(4), hour(5)], last: hour(5) })
  t.same(due('all', hour(5)), { run: [], last: null })
  t.equal(due('all', null, hour(1_000)).run.length, 100)
  t.equal(due('all', null, hour(1_000)).last, hour(1_000))
})

t.test('an interval keeps its beat from when it was saved', async (t) => {
  const state = given({ type: 'interval', config: { every: '90s' } })
  const { since } = state
  t.equal(nextTriggerTick(state, since), since + 90_000)
  t.equal(nextTriggerTick(state, since + 89_999), since + 90_000)
  t.equal(nextTriggerTick(state, since + 90_000), since + 180_000)
  t.same(triggerTicks(state, since, since + 270_000, 2), [since + 180_000, since + 270_000])
  t.same(triggerTicks(state, since - 180_001, since - 1, 10), [since - 180_000, since - 90_000])
})

t.test('a trigger that is changed begins anew; one that is saved as it is does not', async (t) => {
  const before = { ...given(), lastTick: 5 }
  const later = saved().at + 1_000
  t.same(decideSaveTrigger(before, saved({ at: later })), [])
  const renamed = decideSaveTrigger(before, saved({ at: later, name: 'other' })).reduce(trigger.evolve, before)
  t.match(renamed, { since: before.since, lastTick: 5, version: 2, updatedAt: later })
  const config = { cron: '5 * * * *' }
  const moved = decideSaveTrigger(before, saved({ at: later, config })).reduce(trigger.evolve, before as TriggerState)
  t.match(moved, { since: later, lastTick: null, version: 2 })
  const off = decideEnableTrigger(before, false, { by: 'ada', at: later }).reduce(
    trigger.evolve,
    before as TriggerState,
  )
  t.match(off, { enabled: false, version: 2 })
  t.same(decideEnableTrigger(off, false, { by: 'ada', at: later }), [])
  t.same(decideFired(off, { version: 1, tick: 9, executionId: null, at: later }), [], 'a tick of an older version')
  t.same(decideFired(before, { version: 1, tick: 5, executionId: null, at: later }), [], 'a tick that is dealt with')
  t.equal(decideFired(before, { version: 1, tick: 6, executionId: null, at: later }).length, 1)
  const gone = decideDeleteTrigger(before, false, { by: 'ada', at: later }).reduce(
    trigger.evolve,
    before as TriggerState,
  )
  t.match(fold(), { stage: 'absent' })
  const again = decideSaveTrigger(gone, saved({ at: later })).reduce(trigger.evolve, gone)
  t.match(again, { stage: 'saved', version: 3, lastTick: null }, 'the version goes on, so old timers stay void')
})

t.test('what a flow declares is changed in the flow alone', async (t) => {
  const state = given({ declared: true })
  t.throws(() => decideSaveTrigger(state, saved({ name: 'x' })), { code: 'workflows/trigger-declared' })
  t.throws(() => decideDeleteTrigger(state, false, { by: 'ada', at: 1 }), { code: 'workflows/trigger-declared' })
  t.equal(decideDeleteTrigger(state, true, { by: 'ada', at: 1 }).length, 1)
  const off = decideEnableTrigger(state, false, { by: 'ada', at: 1 }).reduce(trigger.evolve, state as TriggerState)
  t.same(decideSaveTrigger(off, saved({ declared: true })), [], 'and stays off when the flow is saved again')
})

t.test('the key of a webhook is claimed, moved and given back with the trigger', async (t) => {
  const hook = (key: string) => given({ type: 'webhook', config: { key } })
  const claimed = webhookKeyChanges('t1', fold(), hook('a'.repeat(16)))
  t.equal(claimed.length, 1)
  t.equal(claimed[0]!.decide({ triggerId: null }).length, 1)
  t.throws(() => claimed[0]!.decide({ triggerId: 'other' }), { code: 'workflows/trigger-exists' })
  const moved = webhookKeyChanges('t1', hook('a'.repeat(16)), hook('b'.repeat(16)))
  t.same(
    moved.map(({ decide }) => decide({ triggerId: 't1' }).map(({ type }) => type)),
    [['workflows.webhook-key.released'], []],
  )
  t.same(webhookKeyChanges('t1', hook('a'.repeat(16)), hook('a'.repeat(16))), [])
})

t.test('signatures', async (t) => {
  const now = at('2026-01-01T00:00:00Z')
  const seconds = now / 1_000
  const body = Buffer.from('{"a":1}')
  const secret = 'a secret of some length'
  const signed = (time: number, text = `${time}.{"a":1}`) => `t=${time},v1=${signatureOf(secret, text)}`
  const mistake = (given: string | undefined, tolerance?: string | number, key: string | null = null) =>
    signatureMistake({ tolerance }, { secret, given, body, key, now })
  t.equal(mistake(signed(seconds)), null)
  t.equal(mistake(`t=${seconds},v1=${'0'.repeat(64)},${signed(seconds).split(',')[1]}`), null, 'one of two secrets')
  t.match(mistake(undefined), /missing/)
  t.match(mistake(signed(seconds - 301)), /too old/)
  t.match(mistake(signed(seconds + 301)), /too old/)
  t.equal(mistake(signed(seconds - 301), '10m'), null)
  t.match(mistake(signed(seconds).replace(`t=${seconds}`, `t=${seconds - 1}`)), /does not fit/, 'the time is signed')
  t.match(mistake(signed(seconds, `${seconds}.{"a":2}`)), /does not fit/)
  t.match(mistake(signed(seconds), undefined, 'a-key'), /does not fit/, 'a key that is not signed')
  t.equal(mistake(signed(seconds, `${seconds}.a-key.{"a":1}`), undefined, 'a-key'), null)
  t.match(mistake(`sha256=${signatureOf(secret, body)}`), /no time/, 'no protection against a replay')
  t.equal(mistake(`sha256=${signatureOf(secret, body)}`, 0), null)
  t.match(mistake(`sha256=${signatureOf('another', body)}`, 0), /does not fit/)
})

t.test('configs that fit their schema and are wrong nonetheless', async (t) => {
  const table: [TriggerType, Record<string, unknown>, string | null][] = [
    ['cron', { cron: '0 0 30 2 *' }, 'cron'],
    ['cron', { cron: 'nonsense' }, 'cron'],
    ['cron', { cron: '0 0 * * *', timezone: 'Mars/Olympus' }, 'timezone'],
    ['cron', { cron: '0 0 * * *', timezone: 'Europe/Berlin' }, null],
    ['interval', { every: '10ms' }, 'every'],
    ['interval', { every: 'soon' }, 'every'],
    ['interval', { every: '1s' }, null],
    ['webhook', { tolerance: '2d' }, 'tolerance'],
    ['subject', { subject: 'evt.workflows.>' }, 'subject'],
    ['subject', { subject: '$KV.platform.>' }, 'subject'],
    ['subject', { subject: '*.orders' }, 'subject'],
    ['subject', { subject: 'orders..new' }, 'subject'],
    ['subject', { subject: 'orders.*.new' }, null],
  ]
  for (const [type, config, member] of table) {
    t.equal(triggerMistake(type, config)?.member ?? null, member, JSON.stringify(config))
  }
  for (const own of [...platformSubjects, '_INBOX.>', '$JS.>']) {
    t.equal(triggerMistake('subject', { subject: own })?.member, 'subject', own)
  }
  const yaml =
    'name: x\ntasks: [{ name: a, type: util.log }]\ntriggers:\n  - { name: t, type: cron, cron: "61 * * * *" }\n'
  const { problems } = readFlow(yaml, { find: () => undefined, all: () => [] })
  t.match(
    problems.filter(({ path }) => path.startsWith('triggers')),
    [{ line: 4 }],
    'also in the YAML of a flow',
  )
  const hook = (line: string) => {
    const text = `name: x\ntasks: [{ name: a, type: util.log }]\ntriggers:\n  - { name: t, type: webhook, key: some-key-of-a-hook, ${line} }\n`
    const found = readFlow(text, { find: () => undefined, all: () => [] }).problems
    return found.filter(({ path }) => path.startsWith('triggers')).map(({ path, message }) => `${path} ${message}`)
  }
  t.same(hook("secret: '${HOOK.key}', inputs: { a: '{{ trigger.body.x }}' }"), [])
  t.match(hook('secret: a-word-in-clear'), ['triggers[0].secret must be a credential: ${NAME}'])
  t.match(hook("inputs: { a: '{{ trigger.body' }"), [/^triggers\[0\]\.inputs\.a is no template/])
  t.match(hook("inputs: { a: '{{ outputs.a.x }}' }"), [/^triggers\[0\]\.inputs\.a names outputs, which there is not/])
})

t.test('changes are filtered by operation and by equal values of the new row', async (t) => {
  const change = (type: 'INSERT' | 'UPDATE' | 'DELETE', data: Record<string, unknown>) => ({
    type,
    schema: 'public',
    table: 'x',
    data,
    timestamp: 1,
  })
  t.equal(wantsChange({}, change('DELETE', { id: 1 })), true)
  t.equal(wantsChange({ operations: ['INSERT'] }, change('DELETE', { id: 1 })), false)
  t.equal(wantsChange({ where: { status: 'paid' } }, change('INSERT', { status: 'paid' })), true)
  const update = change('UPDATE', { old: { status: 'paid' }, new: { status: 'sent', n: '12345678901234567890' } })
  t.equal(wantsChange({ where: { status: 'paid' } }, update), false)
  t.equal(wantsChange({ where: { status: 'sent', n: '12345678901234567890' } }, update), true)
  t.equal(wantsChange({ where: { other: 'x' } }, update), false)
  t.equal(wantsChange({ where: { other: null } }, change('INSERT', { other: null })), true)
})

t.test('inputs come from the body by name, and from templates over the trigger', async (t) => {
  const input = (name: string) => ({ name, type: 'string', required: false, description: '' }) as const
  const firing = {
    cause: 'c',
    brings: { body: { who: 'Ada', more: 1 }, query: { n: '3' } },
    body: { who: 'Ada', more: 1 },
    at: 1,
  }
  const hook = saved({ type: 'webhook', inputs: { count: '{{ trigger.query.n }}' } })
  const made = await firedExecution(hook, planOf([], { inputs: [input('who'), input('count')] }), firing)
  t.match(made, {
    inputs: { who: 'Ada', count: '3' },
    trigger: { type: 'webhook', id: 't1' },
    actor: 'trigger:nightly',
  })
  t.same((await firedExecution(saved(), planOf([]), firing)).inputs, { who: 'Ada', more: 1 })
  t.equal(
    (await firedExecution(saved(), planOf([]), { ...firing, at: 2 })).executionId,
    made.executionId,
    'one id a cause',
  )
  await t.rejects(firedExecution(saved({ inputs: { a: '{{ trigger.x | nothing }}' } }), planOf([]), firing), {
    code: 'workflows/invalid-input',
  })
})
