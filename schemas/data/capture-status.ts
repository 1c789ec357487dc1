import { type Static, Type } from 'typebox'

/**
 * How change capture stands: published on `capture.<source>.status` (core NATS, not stored) on every change of state and every
 * few seconds besides, and on request to `capture.<source>.ask`. Gateways answer 503 with `reason` and `statements` from it.
 */
export const CaptureStatus = Type.Object({
  source: Type.String(),
  /** Which of several captures of a source this is. */
  captureId: Type.String(),
  state: Type.Union([
    Type.Literal('starting'),
    Type.Literal('running'),
    /** Another reader holds the slot; this one takes over when it goes. */
    Type.Literal('standby'),
    /** The database does not allow it: `statements` mend it, no restart of the capture is needed. */
    Type.Literal('refused'),
    /** A passing fault; tried again with back-off. */
    Type.Literal('failing'),
    Type.Literal('stopped'),
  ]),
  reason: Type.Optional(Type.String()),
  /** SQL that mends what is refused, in order. */
  statements: Type.Array(Type.String()),
  slot: Type.String(),
  publication: Type.String(),
  /** Everything up to here is on the stream and given back to the database, `X/X`. */
  confirmedLsn: Type.Optional(Type.String()),
  /** WAL the slot keeps the server from deleting. */
  retainedBytes: Type.Optional(Type.Number()),
  /** Tables of the exposed schemas whose changes are not (all) published, with what mends it. */
  unpublished: Type.Array(
    Type.Object({
      schema: Type.String(),
      table: Type.String(),
      /** INSERT and TRUNCATE are published all the same. */
      inserts: Type.Boolean(),
      reason: Type.String(),
      statement: Type.String(),
    }),
  ),
  /** Epoch ms. */
  at: Type.Integer(),
})
export type CaptureStatus = Static<typeof CaptureStatus>
