import { type Static, type TSchema, Type } from 'typebox'

/** One configuration key. Its type says what a value is once read; in text all values are written as described by `unit`. */
export interface ConfigKey<Schema extends TSchema = TSchema, Default = unknown> {
  readonly schema: Schema
  /** Undefined: no value unless somebody gives one. */
  readonly default: Default
  /** `ms` takes `1500`, `30s`, `5m`, `2h`, `7d`; `bytes` takes `1048576`, `64KB`, `10MB`, `2GB`. */
  readonly unit?: 'ms' | 'bytes'
  readonly doc: string
  /** Masked wherever it is shown, and never part of an error's text. */
  readonly secret?: true
}

interface KeyDetail {
  readonly unit?: 'ms' | 'bytes'
  readonly secret?: true
}

/** `value` is the default. */
export function key<Schema extends TSchema, const Default extends Readonly<Static<Schema>> | undefined>(
  schema: Schema,
  value: Default,
  doc: string,
  detail: KeyDetail = {},
): ConfigKey<Schema, Default> {
  return { schema, default: value, doc, ...detail }
}

export const text = Type.String({ minLength: 1 })
export const list = Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })
export const flag = Type.Boolean()
export const port = Type.Integer({ minimum: 1, maximum: 65_535 })
export const count = (maximum: number, minimum = 1) => Type.Integer({ minimum, maximum })
export const milliseconds = (minimum: number, maximum: number) => Type.Integer({ minimum, maximum })
/** What PostgreSQL takes as the name of a replication slot. */
export const slotName = Type.String({ pattern: '^[a-z0-9_]{1,63}$' })
/** One token of a NATS subject, and a stream's name. */
export const token = Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' })
