import type { Log } from './log.ts'

/** What a component reports: its kind, and fields that are no secrets. */
interface Observation {
  readonly type: string
  readonly error?: unknown
}

/** Observations a person has to look at; all others are information. */
const faults: ReadonlySet<string> = new Set(['request-fault', 'projection-dead'])

/** Turns observations into log lines: one line an outcome, the fields as they are. */
export function observe(log: Log): (observation: Observation) => void {
  return ({ type, error, ...fields }) => {
    if (error === undefined) log.info(fields, type)
    else if (faults.has(type)) log.error({ ...fields, err: error }, type)
    else log.warn({ ...fields, err: error }, type)
  }
}
