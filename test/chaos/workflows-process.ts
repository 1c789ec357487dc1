import { appendFileSync } from 'node:fs'
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

const plugins = [...catalogue, pay('test.pay', 'idempotent'), pay('test.once', 'once')]
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
