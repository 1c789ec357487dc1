import { connect } from '@nats-io/transport-node'
import { addressOf } from '../../bus/connect.ts'
import { startPostgresCapture } from '../../workers/capture/postgres-capture.ts'

/** A capture in a process of its own, to be killed. Arguments: URLs of the database and of the bus, name of the stream. */
const [databaseUrl = '', busUrl = '', streamName = ''] = process.argv.slice(2)

const bus = await connect({ ...addressOf(busUrl), maxReconnectAttempts: -1, reconnectTimeWait: 50, timeout: 2_000 })
startPostgresCapture({
  connection: { connectionString: databaseUrl },
  source: 'main',
  schemas: ['public'],
  slotName: 'busbar',
  publicationName: 'busbar',
  bus,
  streamName,
  signal: new AbortController().signal,
  checkMs: 200,
  onObservation: (observation) => console.log(JSON.stringify({ ...observation, error: undefined })),
})
// Its parent may be killed as well.
process.stdin.resume().on('end', () => process.exit())
