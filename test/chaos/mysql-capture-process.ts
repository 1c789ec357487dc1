import { connect } from '@nats-io/transport-node'
import { addressOf } from '../../bus/connect.ts'
import { startMysqlCapture } from '../../workers/capture/mysql-capture.ts'

/** A capture of MySQL in a process of its own, to be killed. Arguments: URLs of the database and of the bus, name of the stream. */
const [databaseUrl = '', busUrl = '', streamName = ''] = process.argv.slice(2)

const { hostname: host, port, username: user, password } = new URL(databaseUrl)
const bus = await connect({ ...addressOf(busUrl), maxReconnectAttempts: -1, reconnectTimeWait: 50, timeout: 2_000 })
startMysqlCapture({
  connection: { host, port: Number(port), user, password },
  source: 'main',
  schemas: ['public'],
  bus,
  streamName,
  signal: new AbortController().signal,
  refusedRetryMs: 200,
  onObservation: (observation) => console.log(JSON.stringify({ ...observation, error: undefined })),
})
// Its parent may be killed as well.
process.stdin.resume().on('end', () => process.exit())
