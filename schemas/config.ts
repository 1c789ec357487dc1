import { type Static, Type } from 'typebox'
import { type ConfigKey, count, flag, key, list, milliseconds, port, slotName, text, token } from './config/key.ts'

const day = 86_400_000

/**
 * Every configuration key of the platform. A key's environment name is the key in capitals with `_` for every dot and
 * hyphen (`app.nats.stream-name` is `APP_NATS_STREAM_NAME`).
 *
 * Source: specification, configuration tables of A and B (`app.schemas` to `spring.datasource.password`).
 */
export const configKeys = {
  'app.schemas': key(list, ['public'], 'Schemas the GraphQL API exposes, separated by commas, or `ALL`'),
  'app.database-type': key(
    Type.Union([Type.Literal('postgresql'), Type.Literal('mysql')]),
    'postgresql',
    'Kind of database behind the GraphQL API',
  ),
  'app.allowed-schema': key(text, 'public', 'PostgreSQL schema the REST API exposes'),
  'app.default-page-size': key(count(100_000), 100, 'Rows returned when no limit is given'),
  'app.max-page-size': key(count(100_000), 1000, 'Maximum rows per request; a larger limit is lowered to it'),
  'app.nats.enabled': key(flag, false, 'Enables change subscriptions (SSE and WebSocket); `busbar up` turns it on'),
  'app.nats.url': key(
    text,
    'nats://localhost:4222',
    'Broker URL with JetStream, `nats://user:password@host:port`; `busbar up` runs one',
  ),
  'app.nats.stream-name': key(token, 'cdc-stream', 'Stream of the row changes'),
  'spring.datasource.url': key(
    text,
    undefined,
    'The database to serve: `jdbc:postgresql://host:port/db?…` or `postgresql://…`; `busbar up` brings a sample one when there is none',
  ),
  'spring.datasource.username': key(text, undefined, 'Its user; goes before a user in the URL'),
  'spring.datasource.password': key(text, undefined, 'Its password; goes before a password in the URL', {
    secret: true,
  }),
  'mysql.datasource.url': key(
    text,
    undefined,
    'A MySQL or MariaDB to serve as GraphQL, beside PostgreSQL: `jdbc:mysql://host:port/db`, `jdbc:mariadb://…` or `mysql://…`; with `app.database-type=mysql` it may stand in `spring.datasource.url`',
  ),
  'mysql.datasource.username': key(text, undefined, 'Its user; goes before a user in the URL'),
  'mysql.datasource.password': key(text, undefined, 'Its password; goes before a password in the URL', {
    secret: true,
  }),
  'mysql.schemas': key(
    list,
    undefined,
    "Databases of it to expose, separated by commas, or `ALL`; without it the URL's own",
  ),
  'mysql.changes.source': key(token, 'mysql', 'Name of it in the subjects of its changes'),
  'mysql.port': key(port, 13_306, 'Port of the MariaDB that `busbar up --with-mysql` brings'),
  'server.port': key(
    port,
    undefined,
    'HTTP port, when one gateway runs alone; each gateway has a key of its own besides',
  ),
  'server.host': key(text, '127.0.0.1', 'Address to listen on; `0.0.0.0` in a container'),
  'gateway.rest.port': key(port, 20_000, 'HTTP port of the REST API'),
  'gateway.graphql.port': key(port, 10_000, 'HTTP port of the GraphQL API'),
  'gateway.graphql-mysql.port': key(port, 10_001, 'HTTP port of the GraphQL API on MySQL'),
  'gateway.graphql.url': key(
    Type.String({ pattern: '^(auto|https?://[^\\s]+)$' }),
    undefined,
    "Where browsers reach the GraphQL endpoint, for the playground at `/` of the REST API; `auto` is the port above on the request's host, which `busbar up` sets; without it `/` leads to the REST docs",
  ),
  'gateway.functions.port': key(port, 8000, 'HTTP port of the function runtime'),
  'gateway.functions.alias-port': key(
    port,
    undefined,
    'Second port of the function runtime; `busbar up` takes 24006 while the first is not set',
  ),
  'gateway.workflows.port': key(port, 8080, 'HTTP port of the workflow engine'),
  'gateway.provisioning.port': key(port, 24_005, 'HTTP port of the provisioning service'),
  'platform.datasource.url': key(
    text,
    undefined,
    "Database of the platform's own read models; `busbar up` makes one in its own PostgreSQL when there is none",
  ),
  'platform.datasource.username': key(text, undefined, 'Its user'),
  'platform.datasource.password': key(text, undefined, 'Its password', { secret: true }),
  'app.pool-size': key(count(1000), 10, 'Database connections of one gateway'),
  'app.statement-timeout': key(milliseconds(1, day), 30_000, 'Longest run of one statement', { unit: 'ms' }),
  'app.max-body-size': key(count(1_073_741_824), 10_485_760, 'Largest request body', { unit: 'bytes' }),
  'app.max-expand-depth': key(count(20, 0), 5, 'How deep `expand` nests'),
  'app.graphql.naming': key(
    Type.Union([Type.Literal('spec'), Type.Literal('pascal')]),
    'spec',
    'Names of types and fields: `spec` changes first letters only (`PublicOrder_items`), `pascal` gives `PublicOrderItems`',
  ),
  'app.graphql.max-depth': key(count(100), 20, 'How deep fields nest in a GraphQL document'),
  'app.graphql.max-aliases': key(count(10_000, 0), 100, 'Aliases in a GraphQL document'),
  'app.graphql.max-tokens': key(count(1_000_000), 5000, 'Tokens in a GraphQL document'),
  'app.graphql.max-cost': key(
    count(Number.MAX_SAFE_INTEGER, 0),
    10_000_000,
    'Rows a GraphQL operation may return by its estimate (limits multiplied along nested lists), or 0 for any number; the header `Busbar-Cost: 1` asks for the estimate',
  ),
  'app.graphql.apq': key(
    flag,
    true,
    'Automatic persisted queries: whether clients may have documents remembered under their hash',
  ),
  'app.graphql.persisted-documents': key(
    text,
    undefined,
    'Persisted documents: a JSON file that maps ids to documents, or a folder of such files and of `<id>.graphql` files; read at the start',
  ),
  'app.graphql.persisted-only': key(flag, false, 'Whether all documents but the persisted ones are refused'),
  'app.graphql.role-schemas': key(
    flag,
    false,
    'Whether a database role sees only the tables, columns and operations that it has rights for; needs tokens',
  ),
  'app.graphql.introspection': key(flag, true, 'Whether clients may ask for the GraphQL schema'),
  'app.cors-origins': key(
    list,
    ['*'],
    'Origins a browser may call from, separated by commas, `loopback` for pages of this machine, or `*`; on a loopback address `busbar up` takes `loopback` unless told otherwise',
  ),
  'app.jwt.secret': key(
    Type.String({ minLength: 32 }),
    undefined,
    'Shared secret for HS256 tokens, 32 characters or more',
    {
      secret: true,
    },
  ),
  'app.jwt.jwks-url': key(
    Type.String({ pattern: '^https?://' }),
    undefined,
    'Where the public keys of the tokens are published, instead of a secret',
  ),
  'app.jwt.issuer': key(text, undefined, 'Required `iss` of a token'),
  'app.jwt.audience': key(text, undefined, 'Required `aud` of a token'),
  'app.jwt.role-claim': key(text, 'role', 'Claim that names the database role; dots go into objects'),
  'app.jwt.anonymous-role': key(text, undefined, 'Database role of a request without a token'),
  'app.jwt.required': key(flag, false, 'Whether a request without a token is refused'),
  'app.changes.source': key(token, 'main', 'Name of the served database in the subjects of its changes'),
  'app.changes.slot': key(slotName, 'busbar', 'Replication slot of the change capture'),
  'app.changes.publication': key(slotName, 'busbar', 'Publication of the change capture'),
  'app.changes.heartbeat': key(milliseconds(100, 600_000), 15_000, 'Pause between heartbeats to a silent client', {
    unit: 'ms',
  }),
  'app.changes.max-clients': key(count(100_000), 10_000, 'Change stream clients of one gateway'),
  'app.changes.buffer-size': key(
    count(1_073_741_824, 1024),
    1_048_576,
    'Unsent changes kept for one slow client; one that is behind is served from the stream, at its own pace',
    { unit: 'bytes' },
  ),
  'app.changes.stall-timeout': key(
    milliseconds(100, 600_000),
    10_000,
    'How long a client with a full buffer may take nothing before it is cut off',
    { unit: 'ms' },
  ),
  'app.changes.max-snapshot-rows': key(count(1_000_000), 10_000, 'Most rows a stream begins with (`snapshot=true`)'),
  'app.changes.retention-age': key(milliseconds(60_000, 3650 * day), 7 * day, 'How long changes stay on the stream', {
    unit: 'ms',
  }),
  'app.changes.retention-size': key(
    Type.Integer({ minimum: 1_048_576, maximum: Number.MAX_SAFE_INTEGER }),
    2_147_483_648,
    'How much disk the changes may take',
    { unit: 'bytes' },
  ),
  'app.functions.max-scripts': key(count(100_000), 500, 'Functions that may be deployed'),
  'app.functions.timeout': key(milliseconds(100, 900_000), 30_000, 'Longest run of a handler', { unit: 'ms' }),
  'app.functions.memory': key(
    Type.Integer({ minimum: 8_388_608, maximum: 4_294_967_296 }),
    67_108_864,
    'Heap of one function',
    { unit: 'bytes' },
  ),
  'app.functions.management-roles': key(
    list,
    undefined,
    'Roles of tokens that may manage functions (`app.jwt.role-claim`), separated by commas, such as `editor,admin` of the workflow engine; without it any valid token may',
  ),
  'app.functions.hosts': key(count(64), 2, 'Isolate host processes of one function worker'),
  'app.functions.max-isolates': key(
    count(10_000),
    128,
    'Isolates that one function worker keeps warm; idle ones beyond are disposed',
  ),
  'app.functions.isolate-idle': key(
    milliseconds(1_000, 86_400_000),
    300_000,
    'An isolate that was not used for so long is disposed',
    { unit: 'ms' },
  ),
  'app.functions.host-memory': key(
    Type.Integer({ minimum: 134_217_728, maximum: 68_719_476_736 }),
    1_073_741_824,
    'Resident memory of one isolate host process; it is replaced when it takes more',
    { unit: 'bytes' },
  ),
  'app.functions.kv-size': key(
    Type.Integer({ minimum: 65_536, maximum: 68_719_476_736 }),
    16_777_216,
    'What one function may keep in its store, keys and values',
    { unit: 'bytes' },
  ),
  'app.functions.kv-total-size': key(
    Type.Integer({ minimum: 1_048_576, maximum: Number.MAX_SAFE_INTEGER }),
    2_147_483_648,
    'How much disk the stores of all functions may take; functions are told that they are full a sixteenth before that',
    { unit: 'bytes' },
  ),
  'app.functions.cpu-limit': key(
    milliseconds(10, 900_000),
    undefined,
    'Processor time of one call; without it, as long as it may run',
    { unit: 'ms' },
  ),
  'app.workflows.auth': key(
    flag,
    false,
    'Whether the workflow engine asks who calls: routes then need a token of a user with the role (`busbar users add` makes the first)',
  ),
  'app.workflows.allow-anonymous': key(
    flag,
    false,
    'Whether the workflow engine may listen on an address that others can reach while it asks nobody who they are',
  ),
  'app.workflows.open-registration': key(flag, false, 'Whether strangers may register themselves as viewers'),
  'app.workflows.trusted-proxies': key(
    list,
    undefined,
    'Proxies before the workflow engine whose `X-Forwarded-For` tells where a request comes from, separated by commas: addresses or ranges (`10.0.0.0/8`)',
  ),
  'app.provisioning.ports': key(
    Type.String({ pattern: '^[1-9][0-9]{3,4}-[1-9][0-9]{3,4}$' }),
    '26000-26999',
    'Ports that provisioned database servers may take on the loopback address, `<first>-<last>`',
  ),
  'app.provisioning.allow-anonymous': key(
    flag,
    false,
    'Whether the provisioning service may listen on an address that others can reach without asking for tokens',
  ),
  'app.provisioning.max-instances': key(count(10_000), 100, 'Database instances that one organization may have'),
  'app.workflows.scripts': key(
    flag,
    false,
    'Whether tasks may run shell, Node and Python scripts on the machine of the worker; on a loopback address `busbar up` says yes unless told otherwise',
  ),
  'app.workflows.worker-groups': key(
    Type.Array(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }), { minItems: 1, maxItems: 50 }),
    undefined,
    'Groups of tasks (`workerGroup`) that this worker serves, separated by commas; without it `default`, the tasks of no group',
  ),
  'app.workflows.containers': key(
    text,
    '/var/run/docker.sock',
    'Socket of an engine that speaks the API of Docker, in which tasks may run containers where they may run scripts; `none` says no',
  ),
  'app.workflows.plugins': key(
    list,
    undefined,
    'Plugins of your own, separated by commas: folders (a path, looked at again and again) or npm packages',
  ),
  'app.functions.fetch-allow': key(
    list,
    undefined,
    'What functions and tasks of flows may fetch besides public addresses, separated by commas: `loopback`, `private`, addresses, ranges (`10.0.0.0/8`) or host names; on a loopback address `busbar up` takes `loopback` unless told otherwise',
  ),
  'app.functions.fetch-deny': key(
    list,
    undefined,
    'What they may not fetch, whatever is allowed, separated by commas: addresses, ranges or host names',
  ),
  'app.secrets.keys': key(
    Type.Array(Type.String({ pattern: '^[A-Za-z0-9_-]{1,32}:[A-Za-z0-9+/]{43}=$' }), { minItems: 1 }),
    undefined,
    'Keys that secrets are encrypted with, `<id>:<32 bytes in base64>` separated by commas: the first encrypts, all decrypt',
    { secret: true },
  ),
  'app.secrets.keys-file': key(
    text,
    undefined,
    'File with such keys, one a line, which running roles read again when it changes, and `busbar keys rotate` writes; not used when app.secrets.keys is set (`busbar up` keeps one in its data folder)',
  ),
  'busbar.data': key(text, '.busbar', 'Data folder; a relative path starts at the checkout'),
  'nats.port': key(port, 4222, 'Port of the nats-server that `busbar up` starts'),
  'nats.sync-interval': key(
    Type.String({ pattern: '^(always|[1-9][0-9]*(ms|s|m))$' }),
    'always',
    'When it flushes to disk: `always` (before it acknowledges), or every `10s`, `2m`, which is faster and loses that much at a power cut',
  ),
  'postgres.port': key(port, 25_432, 'Port of the PostgreSQL that `busbar up` starts'),
  'log.level': key(
    Type.Union([
      Type.Literal('debug'),
      Type.Literal('info'),
      Type.Literal('warn'),
      Type.Literal('error'),
      Type.Literal('silent'),
    ]),
    'info',
    'Least level that is logged',
  ),
} as const satisfies Record<string, ConfigKey>

export type ConfigName = keyof typeof configKeys

type ValueOf<Key> =
  Key extends ConfigKey<infer Schema, infer Default>
    ? Default extends undefined
      ? Static<Schema> | undefined
      : Static<Schema>
    : never

/** The effective values, by key, checked and frozen. */
export type Config = { readonly [Name in ConfigName]: ValueOf<(typeof configKeys)[Name]> }

/** The key's name in the environment. */
export function environmentName(name: ConfigName): string {
  return name.toUpperCase().replace(/[.-]/g, '_')
}
