import { refuse } from '../care-failure.ts'
import { checkValue, effectOf, isPlatformSetting, readNumber, type Setting } from './setting.ts'

export interface ParameterPlan {
  /** As the user wrote them. */
  readonly values: Readonly<Record<string, string>>
  /** In force with a reload; in force only after a restart. */
  readonly reload: readonly string[]
  readonly restart: readonly string[]
  /**
   * Of the ones that a standby must have at least as high as its primary: `raised` ones are applied to the standbys first,
   * `lowered` ones to the primary first. Otherwise the standbys stop replaying.
   */
  readonly raised: readonly string[]
  readonly lowered: readonly string[]
}

/** Source: https://www.postgresql.org/docs/current/hot-standby.html (administrator's overview) */
const boundToPrimary = [
  'max_connections',
  'max_prepared_transactions',
  'max_locks_per_transaction',
  'max_wal_senders',
  'max_worker_processes',
]
const maxParameters = 100

/**
 * Checks a set of parameters against the running server's settings and says what applying them takes.
 *
 * @throws {CareFailure} `refused` (400), field `parameters.<name>`: unknown, the platform's own, of a wrong type or out of range.
 */
export function planParameters(
  settings: ReadonlyMap<string, Setting>,
  values: Readonly<Record<string, string>>,
): ParameterPlan {
  const names = Object.keys(values)
  if (names.length > maxParameters) refuse(`parameters has more than ${maxParameters} names.`, { field: 'parameters' })
  const entries = names.map((given) => {
    const setting = knownSetting(settings, given)
    const value = values[given]!
    checkValue(setting, value)
    return { setting, value, effect: effectOf(setting) }
  })
  const bound = entries.filter(({ setting }) => boundToPrimary.includes(setting.name))
  const higher = ({ setting, value }: (typeof bound)[number]) =>
    (readNumber(value, setting.unit) ?? 0) > Number(setting.setting)
  const lower = ({ setting, value }: (typeof bound)[number]) =>
    (readNumber(value, setting.unit) ?? 0) < Number(setting.setting)
  const namesOf = (list: typeof entries) => list.map(({ setting }) => setting.name)
  requireTogether(settings, new Map(entries.map(({ setting, value }) => [setting.name, value])))
  return {
    values: Object.fromEntries(entries.map(({ setting, value }) => [setting.name, value])),
    reload: namesOf(entries.filter(({ effect }) => effect === 'reload')),
    restart: namesOf(entries.filter(({ effect }) => effect === 'restart')),
    raised: namesOf(bound.filter(higher)),
    lowered: namesOf(bound.filter(lower)),
  }
}

function knownSetting(settings: ReadonlyMap<string, Setting>, given: string): Setting {
  const field = `parameters.${given.slice(0, 80)}`
  const name = given.toLowerCase()
  if (isPlatformSetting(name)) refuse(`${name} is managed by the platform and cannot be set.`, { field })
  const setting = settings.get(name)
  if (setting !== undefined) return setting
  const near = [...settings.keys()].find((known) => known.replaceAll('_', '') === name.replaceAll(/[_-]/g, ''))
  refuse(`There is no parameter ${given.slice(0, 80)}${near === undefined ? '' : `; perhaps you meant ${near}`}.`, {
    field,
  })
}

/** Rules between settings that the server only finds at its start. */
function requireTogether(settings: ReadonlyMap<string, Setting>, values: ReadonlyMap<string, string>): void {
  const numberOf = (name: string) => {
    const setting = settings.get(name)
    return setting === undefined ? 0 : (readNumber(values.get(name) ?? setting.setting, setting.unit) ?? 0)
  }
  const reserved = numberOf('superuser_reserved_connections') + numberOf('reserved_connections')
  const touched = ['max_connections', 'superuser_reserved_connections', 'reserved_connections'].find((name) =>
    values.has(name),
  )
  if (touched !== undefined && reserved >= numberOf('max_connections')) {
    refuse('max_connections must be higher than the reserved connections together.', { field: `parameters.${touched}` })
  }
}
