import type { DateTime } from 'luxon'
import { TaskFailure } from '../../plugin.ts'
import type { DateTimeInput } from './datetime-properties.ts'

export type Luxon = typeof import('luxon')

const farthest = 200_000

/** Now, without a value. @throws {TaskFailure} `refused` naming the property */
export function instantOf(
  { DateTime, IANAZone }: Luxon,
  input: DateTimeInput,
  value: string | number | undefined,
  name: string,
): DateTime {
  const { zone, locale, inputFormat } = input
  if (!IANAZone.isValidZone(zone) && zone.toUpperCase() !== 'UTC') {
    throw new TaskFailure('refused', `properties.zone is no time zone: ${zone}`)
  }
  const options = { zone, locale: localeOf(locale) }
  if (value === undefined) return DateTime.now().setZone(zone).setLocale(options.locale)
  if (typeof value === 'number') return checked(DateTime.fromMillis(value, options), name)
  const text = value.trim()
  if (name === 'value' && inputFormat !== undefined)
    return checked(DateTime.fromFormat(text, inputFormat, options), name)
  if (/^-?\d{5,16}$/.test(text)) return checked(DateTime.fromMillis(Number(text), options), name)
  const readers = [DateTime.fromISO, DateTime.fromSQL, DateTime.fromRFC2822, DateTime.fromHTTP]
  const found = readers.map((read) => read.call(DateTime, text, options)).find(({ isValid }) => isValid)
  return checked((found ?? DateTime.fromISO(text, options)).setZone(zone), name)
}

function localeOf(locale: string): string {
  try {
    return Intl.getCanonicalLocales(locale)[0] ?? 'en'
  } catch (cause) {
    throw new TaskFailure('refused', `properties.locale is no language tag: ${locale}`, cause)
  }
}

/** @throws {TaskFailure} `refused` for what is no date, or hundreds of thousands of years away */
export function checked(at: DateTime, name: string): DateTime {
  if (at.isValid && Math.abs(at.year) < farthest) return at
  throw new TaskFailure(
    'refused',
    `properties.${name} is no date: ${at.invalidExplanation ?? at.invalidReason ?? 'too far away'}`,
  )
}

const durationUnits = /^(year|quarter|month|week|day|hour|minute|second|millisecond)s?$/

/** @throws {TaskFailure} `refused` */
export function durationOf({ Duration }: Luxon, amount: string | Readonly<Record<string, number>>) {
  if (typeof amount === 'string') {
    const isNegative = amount.trim().startsWith('-P')
    const duration = Duration.fromISO(amount.trim().replace(/^-/, ''))
    if (duration.isValid) return isNegative ? duration.negate() : duration
    throw new TaskFailure('refused', 'properties.amount is no ISO 8601 duration: write P1D or PT2H')
  }
  const wrong = Object.keys(amount).find((unit) => !durationUnits.test(unit))
  if (wrong === undefined) return Duration.fromObject(amount)
  throw new TaskFailure('refused', `properties.amount: ${wrong} is no unit`)
}
