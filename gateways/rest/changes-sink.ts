import type { Table } from '../data/catalog.ts'
import type { ChangeSink, StreamEnd } from '../data/changes-subscription.ts'
import { type EventStream, eventText } from '../http/sse.ts'
import { closeCode, type SocketStream } from '../http/websocket.ts'

const codes: Readonly<Record<StreamEnd, number>> = {
  'slow-reader': closeCode.tryLater,
  'token-expired': closeCode.unauthorized,
  forbidden: closeCode.forbidden,
  'table-gone': closeCode.gone,
  'table-changed': closeCode.restarted,
  unavailable: closeCode.tryLater,
  stopping: closeCode.goingAway,
}

/** Row changes bear the names of specification B (`INSERT` …); what is said of the stream itself has names in lower case. */
function snapshotEvent({ schema, name }: Table): (row: Buffer) => string {
  const head = `{"type":"snapshot","schema":${JSON.stringify(schema)},"table":${JSON.stringify(name)},"data":`
  const timestamp = Date.now()
  return (row) => `${head}${row.toString('utf8')},"timestamp":${timestamp}}`
}

/** @param quiet without an option that concerns the past nothing is sent but changes */
export function eventStreamSink(stream: EventStream, table: Table, quiet: boolean): ChangeSink {
  const asSnapshot = snapshotEvent(table)
  return {
    get unsentBytes() {
      return stream.unsentBytes
    },
    change: ({ frame }) => stream.write(frame),
    gap: (notice) => stream.write(eventText('gap', JSON.stringify({ type: 'gap', ...notice }), notice.resumesAt - 1)),
    snapshotRow: (row) => stream.write(eventText('snapshot', asSnapshot(row))),
    ready(notice) {
      if (!quiet) stream.write(eventText('ready', JSON.stringify({ type: 'ready', ...notice }), notice.position))
    },
    end: (reason, error) => stream.end(eventText('end', JSON.stringify({ type: 'end', reason, error }))),
    drained: () => stream.drained(),
  }
}

/** The same over WebSocket, one JSON text a message. */
export function socketSink(stream: SocketStream, table: Table, quiet: boolean): ChangeSink {
  const asSnapshot = snapshotEvent(table)
  return {
    get unsentBytes() {
      return stream.unsentBytes
    },
    change: ({ body }) => stream.write(body),
    gap: (notice) => stream.write(JSON.stringify({ type: 'gap', ...notice })),
    snapshotRow: (row) => stream.write(asSnapshot(row)),
    ready(notice) {
      if (!quiet) stream.write(JSON.stringify({ type: 'ready', ...notice }))
    },
    end: (reason, error) => stream.end(JSON.stringify({ type: 'end', reason, error }), codes[reason], error),
    drained: () => stream.drained(),
  }
}
