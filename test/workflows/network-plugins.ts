import { catalogue } from '../../workers/workflows/catalogue.ts'

const ids = catalogue.map(({ manifest }) => manifest.id)

/** Plugins that talk to a service over HTTP. */
export const overHttp: readonly string[] = ids.filter((id) =>
  /^(saas|ai)\.|^(slack|discord|telegram|teams)\.|^(graphql\.query|rss\.read|http\.request)$/.test(id),
)

/** Plugins that talk to a server by a protocol of its own. */
export const overTcp: readonly string[] = [
  'db.postgres',
  'db.mysql',
  'db.redis',
  'db.mongodb',
  'smtp.send',
  'ftp.transfer',
  'mqtt.publish',
  'websocket.send',
]
