import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { Type } from 'typebox'
import { connectBus } from '../../bus/connect.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { startWorkflowEngine } from '../../workers/workflows/engine.ts'
import { definePlugin, TaskFailure, type TaskServices } from '../../workers/workflows/plugin.ts'

// A worker that can be killed: `node workflows-process.ts <bus url> <ledger file> <ack wait, ms>`.
const [url, ledger, ackWaitMs] = process.argv.slice(2) as [string, string, string]

const Entry = Type.Object({ failFirst: Type.Optional(Type.Boolean()), ms: Type.Integer({ default: 0 }) })

const pay = (id: string, effect: 'idempotent' | 'once') =>
  definePlugin({
    id,
    name: 'Pay',
    category: 'Custom',
    description: 'Leaves a line in the ledger, under its key: what cannot be taken back.',
    effect,
    input: Entry,
    output: Type.Object({ key: Type.String() }),
    example: '',
    async run({ input: { failFirst, ms }, idempotencyKey, task }) {
      await delay(ms)
      if (failFirst === true && task.attempt === 1) throw new TaskFailure('unavailable', 'not yet')
      appendFileSync(ledger, `${idempotencyKey} ${task.attempt} ${process.pid}\n`)
      return { key: idempotencyKey }
    },
  })

/** Runs until the file `<ledger>.go` is there, and tells when it begins, is stopped and is through. */
const hold = (id: string, effect: 'idempotent' | 'once') =>
  definePlugin({
    id,
    name: 'Hold',
    category: 'Custom',
    description: 'Runs until it is let go.',
    effect,
    input: Type.Object({}),
    output: Type.Object({}),
    example: '',
    async run({ signal, idempotencyKey }) {
      const tell = (what: string) => appendFileSync(ledger, `${idempotencyKey} ${what} ${process.pid} ${Date.now()}\n`)
      tell('begun')
      signal.addEventListener('abort', () => tell('stopped'), { once: true })
      while (!existsSync(`${ledger}.go`)) await delay(20, undefined, { signal })
      tell('through')
      return {}
    },
  })

const plugins = [
  ...catalogue,
  pay('test.pay', 'idempotent'),
  pay('test.once', 'once'),
  hold('test.hold', 'idempotent'),
  hold('test.hold-once', 'once'),
]
const bus = await connectBus({ url, name: 'chaos worker' })
await startWorkflowEngine({
  bus,
  plugins: new Map(plugins.map((plugin) => [plugin.manifest.id, plugin])),
  services: {} as TaskServices,
  credential: async () => null,
  kv: async () => null,
  ackWaitMs: Number(ackWaitMs),
  onObservation: (observation) => {
    if (observation.type === 'message-dead') console.error(observation)
  },
})
console.log('ready')
