import type { Value } from '../../schemas/workflows/task-result.ts'

/** What stands in a list for a body that is too large for it; the execution's own route has it. */
interface Brief {
  readonly truncated: true
  readonly sizeBytes: number
}

const maxListedBytes = 4_096
const maxListedMemberBytes = 256

/** Null for what is small enough to be listed as it is. */
export function briefOf(value: unknown): Brief | null {
  const sizeBytes = bytesOf(value)
  return sizeBytes <= maxListedBytes ? null : { truncated: true, sizeBytes }
}

/** As {@link briefOf}, for what a task or an execution has given. */
export function briefValue(value: Value | null): Brief | null {
  if (value === null) return null
  return 'json' in value ? briefOf(value.json) : { truncated: true, sizeBytes: value.sizeBytes }
}

/** As {@link briefOf}; the small members stay, such as the type and the id of the trigger. */
export function briefTrigger(trigger: Readonly<Record<string, unknown>>): (Brief & Record<string, unknown>) | null {
  const brief = briefOf(trigger)
  if (brief === null) return null
  const small = Object.entries(trigger).filter(([, value]) => bytesOf(value) <= maxListedMemberBytes)
  return { ...Object.fromEntries(small.slice(0, 10)), ...brief }
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? '')
}
