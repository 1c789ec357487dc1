import { type Static, Type } from 'typebox'

/** The eight categories of the catalogue, and how many built-in plugins each has. */
export const pluginCategories = {
  Core: 14,
  'Flow Control': 9,
  Transforms: 13,
  Databases: 5,
  Protocol: 10,
  SaaS: 17,
  AI: 6,
  Utility: 9,
} as const

const Category = Type.Union([
  Type.Literal('Core'),
  Type.Literal('Flow Control'),
  Type.Literal('Transforms'),
  Type.Literal('Databases'),
  Type.Literal('Protocol'),
  Type.Literal('SaaS'),
  Type.Literal('AI'),
  Type.Literal('Utility'),
  Type.Literal('Custom', { description: "the users' own" }),
])

/** `<family>.<name>`, in lower case. */
export const pluginIdPattern = '^[a-z][a-z0-9]*(\\.[a-z][a-z0-9-]*)+$'

/** What a plugin says of itself. Workers put it on the bus when they start; gateways list it and check flows against it. */
export const PluginManifest = Type.Object(
  {
    id: Type.String({ pattern: pluginIdPattern }),
    name: Type.String(),
    category: Category,
    description: Type.String(),
    /** JSON Schema of `properties`. */
    inputSchema: Type.Unknown(),
    /** JSON Schema of what it gives. */
    outputSchema: Type.Unknown(),
    /** A flow in YAML that runs as it stands. */
    example: Type.String(),
    needs: Type.Union([Type.String(), Type.Null()]),
    effect: Type.Union([Type.Literal('pure'), Type.Literal('idempotent'), Type.Literal('once')]),
    /** A task that decides what runs under it. */
    control: Type.Boolean(),
    /** Of a control task: the names of its lists of tasks. */
    blocks: Type.Optional(Type.Array(Type.String())),
  },
  { additionalProperties: false },
)
export type PluginManifest = Static<typeof PluginManifest>

/** The collection of manifests in the platform's bucket: a key a plugin. */
export const pluginCollection = 'plugins'

/** Other spellings of ids that are in use elsewhere, in lower case: flows and look-ups may use them. */
export const pluginAliases: Readonly<Record<string, string>> = {
  log: 'util.log',
  'core.log': 'util.log',
  http: 'http.request',
  'http-request': 'http.request',
  http_request: 'http.request',
  'core.http': 'http.request',
  shell: 'script.shell',
  'script.bash': 'script.shell',
  docker: 'script.shell',
  'docker.run': 'script.shell',
  container: 'script.shell',
  kubernetes: 'script.shell',
  'kubernetes.apply': 'script.shell',
  'kubernetes.job': 'script.shell',
  python: 'script.python',
  set: 'util.set',
  'core.set': 'util.set',
  if: 'core.if',
  switch: 'core.switch',
  foreach: 'core.foreach',
  'for-each': 'core.foreach',
  'flow.foreach': 'core.foreach',
  parallel: 'core.parallel',
  'flow.parallel': 'core.parallel',
  wait: 'core.wait',
  sleep: 'core.wait',
  'core.sleep': 'core.wait',
  subflow: 'core.subflow',
  approval: 'core.approval',
  kv: 'core.kv',
  fail: 'core.fail',
  while: 'flow.while',
  'core.while': 'flow.while',
  postgres: 'db.postgres',
  'db.postgresql': 'db.postgres',
  mysql: 'db.mysql',
  sqlite: 'db.sqlite',
  redis: 'db.redis',
  mongodb: 'db.mongodb',
  'db.mariadb': 'db.mysql',
  mariadb: 'db.mysql',
  smtp: 'smtp.send',
  'mail.send': 'smtp.send',
  'email.send': 'smtp.send',
  'email.read': 'smtp.send',
  'imap.read': 'smtp.send',
  rss: 'rss.read',
  ftp: 'ftp.transfer',
  'sftp.transfer': 'ftp.transfer',
  'webdav.transfer': 'ftp.transfer',
  's3.transfer': 'ftp.transfer',
  'ssh.command': 'ftp.transfer',
  git: 'ftp.transfer',
  'git.clone': 'ftp.transfer',
  'git.commit': 'ftp.transfer',
  mqtt: 'mqtt.publish',
  'nats.publish': 'mqtt.publish',
  'amqp.publish': 'mqtt.publish',
  'rabbitmq.publish': 'mqtt.publish',
  'kafka.publish': 'mqtt.publish',
  kafka: 'mqtt.publish',
  websocket: 'websocket.send',
  'tcp.check': 'websocket.send',
  'tls.check': 'websocket.send',
  'dns.lookup': 'websocket.send',
  csv: 'transform.csv',
  xml: 'transform.xml',
  base64: 'transform.base64',
  hash: 'transform.hash',
  regex: 'transform.regex',
  filter: 'transform.filter',
  sort: 'transform.sort',
  yaml: 'transform.yaml',
  html: 'transform.html',
  markdown: 'transform.markdown',
  aggregate: 'transform.aggregate',
  join: 'transform.join',
  compress: 'transform.compress',
  uuid: 'util.uuid',
  random: 'util.random',
  json: 'util.json',
  url: 'util.url',
  template: 'util.template',
  math: 'util.math',
  string: 'util.string',
  datetime: 'util.datetime',
  crypto: 'util.crypto',
  excel: 'transform.csv',
  xlsx: 'transform.csv',
  parquet: 'transform.csv',
  toml: 'transform.yaml',
  pdf: 'transform.html',
  zip: 'transform.compress',
  image: 'transform.compress',
  'image.convert': 'transform.compress',
  'image.resize': 'transform.compress',
  gzip: 'transform.compress',
  date: 'util.datetime',
  jwt: 'util.crypto',
}

/** The id that a spelling stands for; itself when it stands for no other. */
export function pluginId(spelling: string): string {
  const lower = spelling.toLowerCase()
  return Object.hasOwn(pluginAliases, lower) ? pluginAliases[lower]! : spelling
}
