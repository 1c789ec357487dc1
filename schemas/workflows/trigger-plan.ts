import { type Static, type TSchema, Type } from 'typebox'
import { platformRoots } from '../../bus/message.ts'
import { cronMistake, isTimeZone } from '../cron.ts'
import { parseDuration } from './duration.ts'

/** How many of the ticks that were missed are made up for at the most. */
export const maxMissedTicks = 100

/** Deliveries of a webhook that one execution gets at the most. */
export const maxBatchCount = 1_000

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
const oneOf = <const Word extends string>(...words: readonly Word[]) =>
  Type.Unsafe<Word>(Type.Union(words.map((word) => Type.Literal(word))))
const duration = (description: string) => Type.Union([Type.String({ maxLength: 50 }), Type.Number()], { description })
const onMissed = Type.Optional(
  Type.Union([Type.Literal('skip'), Type.Literal('last'), Type.Literal('all')], {
    description: `Which of the ticks that were missed are made up for: none (the default), the last one, or all, but no more than the last ${maxMissedTicks}`,
  }),
)

/** What the kinds of triggers are told. */
export const triggerConfigs = {
  cron: Type.Object(
    {
      cron: text('Five or six fields, or `@daily` and the like', 200),
      timezone: Type.Optional(text('IANA name; UTC without one', 64)),
      onMissed,
    },
    closed,
  ),
  interval: Type.Object({ every: duration('A duration: `30s`, `5m`, `PT1H`'), onMissed }, closed),
  webhook: Type.Object(
    {
      key: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{16,128}$', description: 'Made up without one' })),
      methods: Type.Optional(
        Type.Array(oneOf('GET', 'POST', 'PUT', 'PATCH'), { minItems: 1, maxItems: 4, description: 'Default POST' }),
      ),
      secret: Type.Optional(text('Credential, `${NAME}`, that signs the deliveries with HMAC-SHA-256')),
      signatureHeader: Type.Optional(
        Type.String({
          pattern: '^[A-Za-z0-9-]{1,64}$',
          description: 'Header with the signature. Default `X-Busbar-Signature`',
        }),
      ),
      tolerance: Type.Optional(
        duration(
          'How old a signature may be: it is `t=<epoch s>,v1=<hex>` over `<t>.<body>`. Default 5m. With 0 it is `sha256=<hex>` over the body alone',
        ),
      ),
      wait: Type.Optional(Type.Boolean({ description: 'Whether the answer waits for the end' })),
      batch: Type.Optional(
        Type.Object(
          {
            count: Type.Optional(
              Type.Integer({ minimum: 1, maximum: maxBatchCount, description: 'With so many of them. Default 1,000' }),
            ),
            window: Type.Optional(duration('So long after the first of them: `15m`')),
            debounce: Type.Optional(duration('When none has come for so long: `5s`')),
          },
          {
            ...closed,
            minProperties: 1,
            description: 'Gathers deliveries into one execution, which starts with whichever of these comes first',
          },
        ),
      ),
    },
    closed,
  ),
  flow: Type.Object(
    {
      flow: text('Name of the flow whose end starts this one', 200),
      namespace: Type.Optional(text('Of that flow; without one the same', 200)),
      statuses: Type.Optional(
        Type.Array(oneOf('SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT'), {
          minItems: 1,
          maxItems: 4,
          description: 'Default SUCCESS',
        }),
      ),
      labels: Type.Optional(
        Type.Record(Type.String({ maxLength: 100 }), Type.String({ maxLength: 200 }), {
          description: 'That the execution must have',
        }),
      ),
    },
    closed,
  ),
  change: Type.Object(
    {
      table: text('Table of the data API', 63),
      schema: Type.Optional(text('Its schema. Default public', 63)),
      operations: Type.Optional(
        Type.Array(oneOf('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'), {
          minItems: 1,
          maxItems: 4,
          description: 'Default all',
        }),
      ),
      where: Type.Optional(
        Type.Record(Type.String({ maxLength: 63 }), Type.Unknown(), {
          description: 'Column to value: all must be equal, in the new row of an update',
        }),
      ),
    },
    closed,
  ),
  subject: Type.Object(
    {
      subject: text("Subject on the bus that a stream of yours holds, wildcards allowed; none of the platform's", 200),
    },
    closed,
  ),
  manual: Type.Object({}, closed),
} as const satisfies Record<string, TSchema>

export type TriggerType = keyof typeof triggerConfigs
/** What a kind is told. */
export type TriggerConfig<Type extends TriggerType> = Static<(typeof triggerConfigs)[Type]>

const minIntervalMs = 1_000
const maxIntervalMs = 366 * 86_400_000
const maxToleranceMs = 86_400_000
const minBatchMs = 100
const maxBatchMs = 86_400_000
/** Of subjects that are the platform's or the server's own. */
const ownSubjects = new RegExp(`^(${platformRoots.join('|')}|_[^.]*|\\$[^.]*|[*>])(\\.|$)`)
const subjectSyntax = /^[^\s.*>]+(\.([^\s.*>]+|\*))*(\.>)?$/

const credential = /^\$\{[A-Z][A-Z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?\}$/

/** Whether a text names a credential, and is none. */
export function isCredential(text: string): boolean {
  return credential.test(text)
}

/** What a config that fits its schema says wrong nonetheless, with the member that says it; null when nothing is. */
export function triggerMistake(
  type: TriggerType,
  config: Readonly<Record<string, unknown>>,
): { readonly member: string; readonly message: string } | null {
  const at = (member: string, message: string) => ({ member, message })
  if (type === 'cron') {
    const { cron, timezone } = config as TriggerConfig<'cron'>
    if (timezone !== undefined && !isTimeZone(timezone)) return at('timezone', 'is no IANA time zone')
    const mistake = cronMistake({ cron, timezone }, 0)
    return mistake === null ? null : at('cron', mistake)
  }
  if (type === 'interval') {
    const everyMs = parseDuration(config.every)
    if (everyMs === null) return at('every', 'must be a duration: 500ms, 30s, 5m, 2h, 1d or PT1H30M')
    if (everyMs >= minIntervalMs && everyMs <= maxIntervalMs) return null
    return at('every', 'must be from one second to 366 days')
  }
  if (type === 'webhook' && config.tolerance !== undefined) {
    const toleranceMs = parseDuration(config.tolerance)
    if (toleranceMs === null) return at('tolerance', 'must be a duration: 30s, 5m, or 0')
    if (toleranceMs > maxToleranceMs) return at('tolerance', 'must be at most a day')
  }
  if (type === 'webhook' && config.batch !== undefined) {
    if (config.wait === true) return at('wait', 'cannot be asked of a webhook that gathers its deliveries')
    for (const [member, value] of Object.entries(config.batch as object)) {
      const ms = member === 'count' ? minBatchMs : parseDuration(value)
      if (ms === null) return at(`batch.${member}`, 'must be a duration: 500ms, 30s, 5m, 2h or PT1H30M')
      if (ms < minBatchMs || ms > maxBatchMs) return at(`batch.${member}`, 'must be from 100ms to a day')
    }
  }
  if (type === 'subject') {
    const subject = String(config.subject)
    if (!subjectSyntax.test(subject)) return at('subject', 'is no subject of NATS')
    return ownSubjects.test(subject) ? at('subject', "is one of the platform's or the server's own") : null
  }
  return null
}
