import { type Static, Type } from 'typebox'

/**
 * One row change, as SSE and WebSocket clients get it and as it lies on the bus (the gateway hands the bytes on).
 * Subject `cdc.<source>.<schema>.<table>.<insert|update|delete|truncate>`. `data` keeps all digits of numbers:
 * JSON numbers for int2, int4, float and int8/numeric alike, written as PostgreSQL writes them.
 * Source: specification B, "Change event".
 */
export const ChangeEvent = Type.Object(
  {
    type: Type.Union([
      Type.Literal('INSERT'),
      Type.Literal('UPDATE'),
      Type.Literal('DELETE'),
      Type.Literal('TRUNCATE'),
    ]),
    schema: Type.String(),
    table: Type.String(),
    data: Type.Record(Type.String(), Type.Unknown(), {
      description:
        'INSERT: the row. UPDATE: {old, new}. DELETE: the key, or the row with replica identity full. TRUNCATE: {}.',
    }),
    timestamp: Type.Integer({ description: 'commit time, epoch ms' }),
  },
  { additionalProperties: false },
)
export type ChangeEvent = Static<typeof ChangeEvent>

/** Headers of a change on the bus, beside the body that is exactly the public event. */
export const changeHeader = {
  /** Commit LSN of the transaction, `X/X`. */
  lsn: 'Busbar-Lsn',
  /** Position of the change in its transaction, from 0. */
  index: 'Busbar-Index',
  /** Transaction id. */
  transaction: 'Busbar-Transaction',
  /** `commandId` of the API call that made the change, when one did. */
  command: 'Busbar-Command',
  /** Digest of the database's identity: positions of different databases cannot be compared. */
  origin: 'Busbar-Origin',
  /** JSON array of the columns that were left out because the event would not fit into a message. */
  omitted: 'Busbar-Omitted',
  /** GTIDs that were executed before its transaction: where to read from to get it again (MySQL, MariaDB). */
  resume: 'Busbar-Resume',
} as const

/**
 * The command an API write emits in its own transaction (`pg_logical_emit_message(true, 'busbar.command', …)`);
 * capture publishes it on `cdc.<source>.command` before the rows it changed.
 */
export const CommandMessage = Type.Object({
  commandId: Type.String({ description: 'UUID' }),
  actor: Type.String({ description: 'subject of the token, or `anonymous`' }),
  operation: Type.String({ description: 'e.g. `rest.insert public.film`' }),
  trace: Type.Optional(Type.String({ description: 'W3C traceparent' })),
})
export type CommandMessage = Static<typeof CommandMessage>

/**
 * A `gap` on `cdc.<source>.gap`: changes may be missing between the message before it and the one behind it, because the
 * database's replication slot was lost.
 */
export const GapMarker = Type.Object({
  reason: Type.String(),
  timestamp: Type.Integer({ description: 'epoch ms' }),
})
export type GapMarker = Static<typeof GapMarker>

export const commandPrefix = 'busbar.command'
