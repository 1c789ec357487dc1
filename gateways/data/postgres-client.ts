import pg from 'pg'
import { WireConnection } from './postgres-wire.ts'

const cancelTimeoutMs = 5_000

interface ResolvedClient extends pg.Client {
  readonly sslNegotiation?: string
  readonly processID: number | null
  readonly secretKey: number | null
}

interface CancellingConnection extends WireConnection {
  connect(port: number | string, host?: string): void
  requestSsl(): void
  cancel(processId: number, secretKey: number): void
}

/** A connection for pg's client, with the TLS options pg itself reads from the configuration or the URL. */
export function newWire(config: pg.ClientConfig): WireConnection {
  const resolved = new pg.Client(config) as ResolvedClient
  return new WireConnection({
    ssl: resolved.ssl,
    keepAlive: true,
    ...(resolved.sslNegotiation === undefined ? {} : { sslNegotiation: resolved.sslNegotiation }),
  } as pg.ConnectionConfig)
}

/** Resolves when the server has taken the request (it closes the connection), or could not. */
export function requestCancel(config: pg.ClientConfig, of: pg.Client): Promise<void> {
  const { host, port, ssl, processID, secretKey } = of as ResolvedClient
  if (processID === null || secretKey === null) return Promise.resolve()
  const wire = newWire(config) as CancellingConnection
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timeout)
      wire.stream.destroy()
      resolve()
    }
    const timeout = setTimeout(finish, cancelTimeoutMs)
    wire.on('connect', () => (ssl ? wire.requestSsl() : wire.cancel(processID, secretKey)))
    wire.on('sslconnect', () => wire.cancel(processID, secretKey))
    wire.on('error', finish)
    wire.on('end', finish)
    if (host.startsWith('/')) wire.connect(`${host}/.s.PGSQL.${port}`)
    else wire.connect(port, host)
  })
}
