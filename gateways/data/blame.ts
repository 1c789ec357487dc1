import type { ErrorCode } from '../../schemas/errors.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { Parameter } from './statement.ts'

const aboutValues: ReadonlySet<ErrorCode> = new Set(['data/invalid-value', 'data/database-error', 'data/too-complex'])

/**
 * The database tells which value it refuses, not where the request has it: this adds `details.field` when a single place of the
 * request can be meant. Any other error is returned as it is.
 */
export function blamed(
  error: unknown,
  { parameters, places = [] }: { readonly parameters: readonly Parameter[]; readonly places?: Places | undefined },
): unknown {
  if (!(error instanceof Rejected) || !aboutValues.has(error.code)) return error
  const details: object = typeof error.details === 'object' && error.details !== null ? error.details : {}
  const field = 'field' in details ? undefined : placeOf(error.message, parameters, places)
  if (field === undefined) return error
  const { code, message, hint } = error
  return new Rejected(code, `${field}: ${message}`, {
    details: { ...details, field },
    cause: error,
    ...(hint === undefined ? {} : { hint }),
  })
}

/** Where in the request the parameters of the same index stand. */
export type Places = readonly (string | undefined)[]

function placeOf(message: string, parameters: readonly Parameter[], places: Places): string | undefined {
  const named = (fits: (value: string) => boolean) => [
    ...new Set(parameters.flatMap((value, index) => (value !== null && fits(value) ? (places[index] ?? []) : []))),
  ]
  const whole = named((value) => message.includes(`"${value}"`))
  // A member of a list is shown without the list.
  const [, shown] = /"(.*)"/s.exec(message) ?? []
  const candidates = whole.length > 0 ? whole : named((value) => shown === undefined || value.includes(shown))
  return candidates.length === 1 ? candidates[0] : undefined
}
