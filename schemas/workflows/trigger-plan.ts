import { type TSchema, Type } from 'typebox'

/** A trigger that a flow's YAML declares. */
export interface TriggerPlan {
  /** Unique in the flow. */
  readonly name: string
  readonly type: TriggerType
  readonly enabled: boolean
  /** What executions that it starts get, besides what it brings. */
  readonly inputs: Readonly<Record<string, unknown>>
  /** The members of its type, see `triggerConfigs`. */
  readonly config: Readonly<Record<string, unknown>>
}

const closed = { additionalProperties: false } as const
const text = (description: string, max = 500) => Type.String({ description, minLength: 1, maxLength: max })

/** What the kinds of triggers are told. */
export const triggerConfigs = {
  cron: Type.Object(
    {
      cron: text('Five or six fields, or `@daily` and the like', 200),
      timezone: Type.Optional(text('IANA name; UTC without one', 64)),
      backfill: Type.Optional(
        Type.Union([Type.Literal('none'), Type.Literal('last'), Type.Literal('all')], {
          description: 'Which of the ticks that were missed are made up for',
        }),
      ),
    },
    closed,
  ),
  interval: Type.Object(
    { every: Type.Union([Type.String(), Type.Number()], { description: 'A duration: `30s`, `5m`, `PT1H`' }) },
    closed,
  ),
  webhook: Type.Object(
    {
      key: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{16,128}$', description: 'Made up without one' })),
      secret: Type.Optional(text('Credential, `${NAME}`, that signs the deliveries')),
      wait: Type.Optional(Type.Boolean({ description: 'Whether the answer waits for the end' })),
    },
    closed,
  ),
  flow: Type.Object(
    {
      flow: text('Name of the flow whose end starts this one', 200),
      namespace: Type.Optional(text('Of that flow; without one the same', 200)),
      statuses: Type.Optional(
        Type.Array(
          Type.Union([
            Type.Literal('SUCCESS'),
            Type.Literal('FAILED'),
            Type.Literal('CANCELLED'),
            Type.Literal('TIMED_OUT'),
          ]),
          { minItems: 1 },
        ),
      ),
    },
    closed,
  ),
  change: Type.Object(
    {
      table: text('Table of the data API', 200),
      schema: Type.Optional(text('Its schema', 200)),
      operations: Type.Optional(
        Type.Array(Type.Union([Type.Literal('INSERT'), Type.Literal('UPDATE'), Type.Literal('DELETE')]), {
          minItems: 1,
        }),
      ),
      filter: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'Column to value' })),
    },
    closed,
  ),
  subject: Type.Object({ subject: text('Subject on the bus, wildcards allowed') }, closed),
  manual: Type.Object({}, closed),
} as const satisfies Record<string, TSchema>

export type TriggerType = keyof typeof triggerConfigs
