/** A plugin of the user's own that leaves a line in a ledger, under its key: what cannot be taken back. */
export function ledgerPlugin(ledger: string): string {
  return `
import { appendFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { definePlugin, TaskFailure, Type } from 'busbar/plugin'

const pay = (id, effect) =>
  definePlugin({
    id,
    name: 'Pay',
    category: 'Custom',
    description: 'Leaves a line in the ledger.',
    effect,
    input: Type.Object(
      {
        failFirst: Type.Boolean({ description: 'Whether the first attempt fails', default: false, examples: [true] }),
        ms: Type.Integer({ description: 'How long it takes', default: 5, examples: [5] }),
      },
      { additionalProperties: false },
    ),
    output: Type.Object({ key: Type.String({ description: 'Its key', examples: ['a/b'] }) }),
    example: 'name: pays\\ntasks:\\n  - name: pay\\n    type: ' + id + '\\n',
    async run({ input: { failFirst, ms }, idempotencyKey, task }) {
      await delay(ms)
      if (failFirst && task.attempt === 1) throw new TaskFailure('unavailable', 'not yet')
      appendFileSync(${JSON.stringify(ledger)}, idempotencyKey + ' ' + task.attempt + ' ' + process.pid + '\\n')
      return { key: idempotencyKey }
    },
  })

export const idempotent = pay('chaos.pay', 'idempotent')
export const once = pay('chaos.once', 'once')
`
}

export interface Shape {
  readonly name: string
  /** Of a hundred that are started. */
  readonly share: number
  readonly yaml: string
  /** Runs that leave a line, each under its own key. */
  readonly pays: readonly string[]
}

/** How many of the limited flow run at a time. */
export const limit = 3

export const child: Shape = {
  name: 'child',
  share: 0,
  yaml: `name: child
tasks:
  - { name: inner, type: chaos.pay }
outputs: { key: '{{ outputs.inner.key }}' }
`,
  pays: ['inner'],
}

/** Started by time alone. */
export const ticking: Shape = {
  name: 'ticking',
  share: 0,
  yaml: `name: ticking
tasks:
  - { name: tick, type: chaos.pay, properties: { ms: 0 } }
triggers:
  - { name: clock, type: cron, cron: '* * * * * *', onMissed: all }
  - { name: beat, type: interval, every: 2s, onMissed: all }
`,
  pays: ['tick'],
}

/** What clients start over HTTP. */
export function startedShapes(childFlowId: string): readonly Shape[] {
  return [
    {
      name: 'plain',
      share: 34,
      yaml: `name: plain
tasks:
  - { name: one, type: chaos.pay }
  - { name: two, type: chaos.pay }
  - { name: three, type: chaos.pay }
outputs: { last: '{{ outputs.three.key }}' }
`,
      pays: ['one', 'two', 'three'],
    },
    {
      name: 'parallel',
      share: 14,
      yaml: `name: parallel
tasks:
  - name: all
    type: core.parallel
    tasks:
      - { name: left, type: chaos.pay }
      - { name: middle, type: chaos.pay }
      - { name: right, type: chaos.pay }
  - { name: last, type: chaos.pay }
finally:
  - { name: tidy, type: chaos.pay }
`,
      pays: ['all.left', 'all.middle', 'all.right', 'last', 'tidy'],
    },
    {
      name: 'nested',
      share: 10,
      yaml: `name: nested
tasks:
  - { name: before, type: chaos.pay }
  - { name: other, type: core.subflow, properties: { flowId: '${childFlowId}' } }
  - { name: after, type: chaos.pay }
outputs: { inner: '{{ outputs.other.key }}' }
`,
      pays: ['before', 'after'],
    },
    {
      name: 'limited',
      share: 12,
      yaml: `name: limited
concurrency: ${limit}
tasks:
  - { name: only, type: chaos.pay, properties: { ms: 20 } }
`,
      pays: ['only'],
    },
    {
      name: 'gated',
      share: 10,
      yaml: `name: gated
tasks:
  - { name: before, type: chaos.pay }
  - { name: gate, type: core.approval, properties: { message: 'Go?' } }
  - { name: after, type: chaos.pay }
`,
      pays: ['before', 'after'],
    },
    {
      name: 'retried',
      share: 10,
      yaml: `name: retried
tasks:
  - name: again
    type: chaos.pay
    properties: { failFirst: true, ms: 0 }
    retry: { maxAttempts: 9, delay: 200ms, backoff: constant, jitter: 0 }
  - { name: moment, type: core.wait, properties: { duration: 300ms } }
  - { name: after, type: chaos.pay }
`,
      pays: ['again', 'after'],
    },
    {
      name: 'cancelled',
      share: 6,
      yaml: `name: cancelled
tasks:
  - { name: before, type: chaos.pay }
  - { name: long, type: core.wait, properties: { duration: 1h } }
  - { name: never, type: chaos.pay }
`,
      pays: ['before', 'never'],
    },
    {
      name: 'once',
      share: 4,
      yaml: `name: once
tasks:
  - { name: only, type: chaos.once }
`,
      pays: ['only'],
    },
  ]
}
