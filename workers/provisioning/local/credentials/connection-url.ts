export interface ConnectionTarget {
  readonly host: string
  readonly port: number
  readonly databaseName: string
  readonly username: string
  readonly password: string
  /** Left out of the URL when absent. */
  readonly sslMode?: string
}

const schemes = { POSTGRESQL: 'postgresql', MYSQL: 'mysql', MONGODB: 'mongodb' } as const

/** `postgresql://user:password@host:port/database`, every part escaped, IPv6 addresses in brackets. */
export function connectionUrl(type: keyof typeof schemes, target: ConnectionTarget): string {
  const { host, port, sslMode } = target
  const [user, password, database] = [target.username, target.password, target.databaseName].map(escapePart)
  const place = host.includes(':') ? `[${host}]` : host
  const query = sslMode === undefined ? '' : `?sslmode=${escapePart(sslMode)}`
  return `${schemes[type]}://${user}:${password}@${place}:${port}/${database}${query}`
}

/** encodeURIComponent leaves some marks that shells and older clients stumble over. */
function escapePart(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)
}
