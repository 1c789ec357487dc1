import t from 'tap'
import { decideDelete, decideEnable, decideRevise, type FlowFact, flow } from '../../schemas/workflows/flow.ts'
import { decideClaim, decideRelease, type FlowNameFact, flowName } from '../../schemas/workflows/flow-name.ts'
import { flow as plan, task } from './plans.ts'

const place = { namespace: 'team', name: 'hello' }
const one = { ...place, flowId: 'one' }
const two = { ...place, flowId: 'two' }

const given = (...facts: FlowNameFact[]) => facts.reduce(flowName.evolve, flowName.initial)
const claimed = decideClaim(given(), one)
const released = decideRelease(given(...claimed), one)

t.test('a name', async (t) => {
  t.match(claimed, [{ type: 'workflows.flow-name.claimed', data: one }], 'that is free can be claimed')
  t.strictSame(decideClaim(given(...claimed), one), [], 'is claimed once')
  t.throws(
    () => decideClaim(given(...claimed), two),
    { code: 'workflows/flow-exists', details: { flowId: 'one' } },
    'that another flow has cannot be claimed',
  )
  t.strictSame(decideRelease(given(...claimed), two), [], 'cannot be released by another flow')
  t.match(released, [{ type: 'workflows.flow-name.released' }], 'can be released by its own')
  t.match(decideClaim(given(...claimed, ...released), two), [{ data: two }], 'can then be claimed by another')
})

t.test('a flow', async (t) => {
  const state = (...facts: readonly FlowFact[]) => facts.reduce(flow.evolve, flow.initial)
  const text = { flowId: 'one', ...place, yamlContent: 'a', plan: plan([task('a')]), by: 'ann', at: 1 }
  const first = decideRevise(state(), text)
  const second = decideRevise(state(...first), { ...text, yamlContent: 'b', at: 2 })
  t.match(first, [{ data: { revision: 1 } }], 'begins with revision 1')
  t.strictSame(decideRevise(state(...first), { ...text, at: 9 }), [], 'has no other revision for the same text')
  t.match(second, [{ data: { revision: 2 } }], 'has another one for another text')
  t.match(decideRevise(state(...first), { ...text, name: 'x' }), [{ data: { revision: 2 } }], 'and for another name')
  t.match(state(...first, ...second), { createdAt: 1, latest: { at: 2 } }, 'keeps when it was created')
  const disabled = decideEnable(state(...first), false, 'ann', 3)
  t.match(state(...first, ...disabled, ...second), { enabled: false }, 'stays disabled when it is changed')
  t.strictSame(decideEnable(state(...first), true, 'ann', 3), [], 'is not enabled twice')
  const deleted = decideDelete(state(...first), 'ann', 4)
  t.throws(() => decideDelete(state(...first, ...deleted), 'ann', 5), { code: 'workflows/flow-not-found' })
  t.throws(() => decideEnable(state(), true, 'ann', 5), { code: 'workflows/flow-not-found' })
})
