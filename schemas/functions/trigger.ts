import { type Static, Type } from 'typebox'

const closed = { additionalProperties: false } as const
const TriggerName = Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' })

/** Calls the function at the times of a cron expression. */
export const CronTrigger = Type.Object(
  {
    name: TriggerName,
    cron: Type.String({ minLength: 9, maxLength: 100, description: 'five fields, or six with seconds first' }),
    timezone: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'IANA name. Default UTC' })),
  },
  closed,
)
export type CronTrigger = Static<typeof CronTrigger>

/** Calls the function with every row change of a table. */
export const ChangeTrigger = Type.Object(
  {
    name: TriggerName,
    schema: Type.Optional(Type.String({ minLength: 1, maxLength: 63, description: 'Default public' })),
    table: Type.String({ minLength: 1, maxLength: 63 }),
    operations: Type.Optional(
      Type.Array(
        Type.Union([Type.Literal('INSERT'), Type.Literal('UPDATE'), Type.Literal('DELETE'), Type.Literal('TRUNCATE')]),
        { minItems: 1, maxItems: 4, description: 'Default all' },
      ),
    ),
  },
  closed,
)
export type ChangeTrigger = Static<typeof ChangeTrigger>

export const Trigger = Type.Union([CronTrigger, ChangeTrigger])
export type Trigger = Static<typeof Trigger>

export const maxTriggers = 20

export function isCron(trigger: Trigger): trigger is CronTrigger {
  return 'cron' in trigger
}

/** A tick of a cron trigger, as it lies in its timer. */
export const Tick = Type.Object(
  {
    functionId: Type.String(),
    name: TriggerName,
    version: Type.Integer({ description: 'of the triggers when the timer was set: an older one is void' }),
    at: Type.Integer({ description: 'epoch ms' }),
  },
  closed,
)
export type Tick = Static<typeof Tick>

/** Purpose of the timers of ticks. */
export const tickPurpose = 'function-cron'
