import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type FactOf } from '../../bus/message.ts'

const closed = { additionalProperties: false } as const
const Text = Type.String()
const nullable = <S extends Parameters<typeof Type.Union>[0][number]>(schema: S) => Type.Union([schema, Type.Null()])

/** An alert of an instance; one from its beginning to its end, under one id. */
export const Alert = Type.Object(
  {
    id: Type.String({ description: '`<rule>-<project>-<epoch seconds of its beginning>`' }),
    projectId: Text,
    rule: Text,
    severity: Type.Union([Type.Literal('WARNING'), Type.Literal('CRITICAL')]),
    message: Text,
    metric: Type.String({ description: "the metrics' field" }),
    value: nullable(Type.Number()),
    threshold: Type.Number(),
    timestamp: Type.String({ description: 'RFC 3339, of its beginning' }),
    resolved: Type.Boolean(),
    resolvedAt: nullable(Text),
  },
  closed,
)
export type Alert = Static<typeof Alert>

const AlertFired = defineEvent('provisioning.alerts.fired', Type.Object({ alert: Alert }, closed))
const AlertResolved = defineEvent('provisioning.alerts.resolved', Type.Object({ alert: Alert }, closed))

type AlertFact = FactOf<typeof AlertFired | typeof AlertResolved>

export interface AlertsState {
  readonly active: readonly Alert[]
  /** Those that have ended, the newest first. */
  readonly history: readonly Alert[]
}

/** Of one instance: the state stays small enough to be carried. */
const maxHistory = 30

/** What was wrong with an instance, and is. Subject `evt.provisioning.alerts.<projectName>`. */
export const alerts: Aggregate<AlertsState, AlertFact> = {
  events: defineEvents(AlertFired, AlertResolved),
  initial: { active: [], history: [] },
  evolve({ active, history }, { type, data: { alert } }) {
    const others = active.filter(({ id }) => id !== alert.id)
    if (type === 'provisioning.alerts.fired') return { active: [...others, alert], history }
    return { active: others, history: [alert, ...history].slice(0, maxHistory) }
  },
}

/** Nothing of what is known: an alert begins once and ends once. */
export function decideAlerts({ active, history }: AlertsState, changes: readonly Alert[]): readonly AlertFact[] {
  return changes.flatMap((alert): readonly AlertFact[] => {
    const isActive = active.some(({ id }) => id === alert.id)
    if (alert.resolved) return isActive ? [AlertResolved.of({ alert })] : []
    return isActive || history.some(({ id }) => id === alert.id) ? [] : [AlertFired.of({ alert })]
  })
}
