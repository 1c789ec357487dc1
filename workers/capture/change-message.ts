import { headers, type MsgHdrs } from '@nats-io/nats-core'
import { changeHeader } from '../../schemas/data/change.ts'
import { parseLsn } from './lsn.ts'

/** A change's place in the order of its source: the commit it came with, and which one of the commit it is. */
export interface Position {
  readonly lsn: bigint
  readonly index: number
}

export interface ChangeMessage {
  readonly subject: string
  readonly body: string
  readonly position: Position
  /** Transaction id. */
  readonly transaction: number | string
  readonly command?: string
  /** Columns left out because the message would be too large. */
  readonly omitted?: readonly string[]
  /** Where to read from to get its transaction again, for databases that do not keep that for us. */
  readonly resume?: string
}

/** `lsn` is the position's, as text; `origin` a digest of the database's identity. */
export function headersOf(
  { position, transaction, command, omitted, resume }: ChangeMessage,
  lsn: string,
  origin: string,
): MsgHdrs {
  const head = headers()
  head.set(changeHeader.lsn, lsn)
  head.set(changeHeader.index, String(position.index))
  head.set(changeHeader.transaction, String(transaction))
  head.set(changeHeader.origin, origin)
  if (command !== undefined) head.set(changeHeader.command, command)
  if (omitted !== undefined) head.set(changeHeader.omitted, JSON.stringify(omitted))
  if (resume !== undefined) head.set(changeHeader.resume, resume)
  return head
}

/** Null when the headers do not say. */
export function positionOf(head: MsgHdrs): Position | null {
  const lsn = head.get(changeHeader.lsn)
  const index = Number(head.get(changeHeader.index))
  return lsn === '' || Number.isNaN(index) ? null : { lsn: parseLsn(lsn), index }
}
