import { jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/nats-core'
import { type Connection, createConnection } from 'mysql2/promise'
import type { Test } from 'tap'
import { type MysqlCaptureOptions, startMysqlCapture } from '../../workers/capture/mysql-capture.ts'
import type { CaptureObservation } from '../../workers/capture/observation.ts'
import { testMysql } from '../support/mysql.ts'
import { type TestServer, testNats } from '../support/servers.ts'
import { connectBus, readStream, type Stored, until } from './support.ts'

export interface MysqlStage {
  readonly server: TestServer
  readonly bus: NatsConnection
}

/** A server and a bus for the scenes of a file. */
export async function mysqlStage(t: Pick<Test, 'teardown'>): Promise<MysqlStage> {
  const [server, nats] = await Promise.all([testMysql(t), testNats(t)])
  return { server, bus: await connectBus(t, nats.url) }
}

export async function connectMysql(
  t: Pick<Test, 'teardown'>,
  { server }: Pick<MysqlStage, 'server'>,
  database?: string,
): Promise<Connection> {
  const uri = `${server.url}${database === undefined ? '' : `/${database}`}`
  const connection = await createConnection({ uri, multipleStatements: true, timezone: 'Z' })
  connection.on('error', () => undefined)
  t.teardown(() => connection.destroy())
  return connection
}

/** A database, source and stream of its own. */
export async function mysqlScene(t: Pick<Test, 'teardown'>, stage: MysqlStage, source: string) {
  const { server, bus } = stage
  const { streams } = await jetstreamManager(bus)
  await streams.add({ name: source, subjects: [`cdc.${source}.>`], allow_direct: true })
  const owner = await connectMysql(t, stage)
  await owner.query(`create database ${source}; create table ${source}.probe (number int primary key)`)
  const database = await connectMysql(t, stage, source)
  const seen: CaptureObservation[] = []
  let probes = 0
  let next = 1
  const start = (options: Partial<MysqlCaptureOptions> = {}) => {
    const { hostname, port } = new URL(server.url)
    const stopping = new AbortController()
    const capture = startMysqlCapture({
      connection: { host: hostname, port: Number(port), user: 'root', password: 'secret' },
      source,
      schemas: [source],
      bus,
      streamName: source,
      signal: stopping.signal,
      refusedRetryMs: 200,
      onObservation: (observation) => seen.push(observation),
      ...options,
    })
    t.teardown(() => capture.stop())
    return capture
  }
  return {
    source,
    database,
    seen,
    start,
    async running(options?: Partial<MysqlCaptureOptions>) {
      const capture = start(options)
      await until(() => capture.status().state === 'running')
      return capture
    },
    /** What has come onto the stream since the last call, up to a probe that is written now. */
    async changes(on: Connection = database): Promise<Stored[]> {
      probes++
      await on.query('insert into probe values (?)', [probes])
      const isProbe = ({ body }: Stored) => body.includes(`"table":"probe","data":{"number":${probes}}`)
      const all = await readStream(bus, isProbe, next, source)
      next = all.at(-1)!.sequence + 1
      return all.slice(0, -1).filter(({ subject }) => !subject.endsWith('.gap'))
    },
  }
}

/** Without their times. */
export function bodies(messages: readonly Stored[]): string[] {
  return messages.map(({ body }) => body.replace(/,"timestamp":\d+\}$/, '}'))
}
