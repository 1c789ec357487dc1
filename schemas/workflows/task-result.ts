import { type Static, Type } from 'typebox'

const Time = Type.Integer({ description: 'epoch ms' })
const text = Type.String
const closed = { additionalProperties: false } as const

/** What a task or an execution has given: the JSON itself, or where it lies in the object store when it is large. */
export const Value = Type.Union([
  Type.Object({ json: Type.Unknown() }, closed),
  Type.Object({ object: text({ description: 'digest in the object store' }), sizeBytes: Type.Integer() }, closed),
])
export type Value = Static<typeof Value>

/** Why something failed. `kind` decides whether a retry can help. */
export const Failure = Type.Object(
  {
    message: text(),
    kind: Type.Union([
      Type.Literal('refused', { description: 'a final no of what was called, or of the input' }),
      Type.Literal('unavailable', { description: 'a passing fault: a retry can help' }),
      Type.Literal('timeout'),
      Type.Literal('lost', { description: 'the worker died while a task ran that must not run twice' }),
    ]),
    /** The task that failed first, for an execution and for a control task. */
    task: Type.Optional(text()),
  },
  closed,
)
export type Failure = Static<typeof Failure>

/**
 * What a control task has decided: a block to run, items to run a block for, another round of a loop, an execution to wait for, or
 * to wait for a time or for a person.
 */
export const Opening = Type.Union([
  Type.Object(
    {
      kind: Type.Literal('block'),
      block: text({ description: 'empty: none of them' }),
      concurrency: Type.Integer({ minimum: 1 }),
      onFailure: Type.Union([Type.Literal('cancel'), Type.Literal('wait'), Type.Literal('continue')]),
    },
    closed,
  ),
  Type.Object(
    {
      kind: Type.Literal('items'),
      items: Value,
      count: Type.Integer({ minimum: 0 }),
      concurrency: Type.Integer({ minimum: 1 }),
      onFailure: Type.Union([Type.Literal('cancel'), Type.Literal('wait'), Type.Literal('continue')]),
    },
    closed,
  ),
  Type.Object(
    { kind: Type.Literal('round'), round: Type.Integer({ minimum: 0, description: 'from 0' }), goOn: Type.Boolean() },
    closed,
  ),
  Type.Object(
    {
      kind: Type.Literal('child'),
      executionId: text(),
      flowId: text({ description: 'or its name' }),
      namespace: Type.Optional(text({ description: 'of the name; absent: that of the execution' })),
      inputs: Type.Record(text(), Type.Unknown()),
      wait: Type.Boolean({ description: 'whether its end is waited for; then its failure is this failure' }),
    },
    closed,
  ),
  Type.Object(
    {
      kind: Type.Literal('pause'),
      until: Type.Union([Time, Type.Null()]),
      /** What a person is asked; null when only time is waited for. */
      question: Type.Union([
        Type.Object(
          {
            message: text(),
            role: text({ description: 'who may decide, at least' }),
            /** What it means when nobody has decided in time. */
            onTimeout: Type.Union([Type.Literal('fail'), Type.Literal('approve'), Type.Literal('reject')]),
          },
          closed,
        ),
        Type.Null(),
      ]),
    },
    closed,
  ),
])
export type Opening = Static<typeof Opening>

/** What a worker found when it ran an attempt. */
export type TaskResult =
  | { readonly kind: 'success'; readonly outputs: Value }
  | { readonly kind: 'opening'; readonly opening: Opening }
  | { readonly kind: 'skip'; readonly reason: string }
  | { readonly kind: 'failure'; readonly failure: Failure }
