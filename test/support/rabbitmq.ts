import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../ops/local/child.ts'
import { testDebianServer } from './debian-server.ts'
import type { Owner, TestServer } from './servers.ts'

const packages = { name: 'rabbitmq', packages: ['rabbitmq-server'] }
const erlang = 'usr/lib/erlang'

interface RabbitOptions {
  readonly password: string
  readonly tls?: { readonly certificate: string; readonly key: string }
}

/** A RabbitMQ with the account `app`; it takes some seconds to start. With a certificate it speaks TLS on a port of its own. */
export async function testRabbitmq(
  t: Owner,
  { password, tls }: RabbitOptions,
): Promise<TestServer & { readonly secureUrl: string }> {
  // Where its node is registered: one of our own, so that none stays behind.
  const names = await testDebianServer(t, {
    ...packages,
    program: 'epmd',
    scheme: 'epmd',
    args: ({ port }) => ['-port', String(port), '-address', '127.0.0.1'],
  })
  const [distribution, securePort] = [await freePort(), await freePort()]
  const server = await testDebianServer(t, {
    ...packages,
    program: `${erlang}/erts-13.1.5/bin/erlexec`,
    scheme: 'amqp',
    files: ({ folder }) => ({
      'rabbitmq.conf': [
        'default_user = app',
        `default_pass = ${password}`,
        'loopback_users = none',
        ...(tls === undefined
          ? []
          : [
              `listeners.ssl.1 = 127.0.0.1:${securePort}`,
              `ssl_options.certfile = ${folder}/cert.pem`,
              `ssl_options.keyfile = ${folder}/key.pem`,
              'ssl_options.verify = verify_none',
            ]),
        '',
      ].join('\n'),
      plugins: '[].\n',
      inetrc: '{lookup, [file]}.\n{hosts_file, ""}.\n{resolv_conf, ""}.\n{host, {127,0,0,1}, ["localhost"]}.\n',
      ...(tls !== undefined && { 'cert.pem': tls.certificate, 'key.pem': tls.key }),
    }),
    environment: ({ folder, port, packages: { root } }) => ({
      ROOTDIR: join(root, erlang),
      BINDIR: join(root, erlang, 'erts-13.1.5/bin'),
      EMU: 'beam',
      PROGNAME: 'erl',
      ERL_LIBS: join(root, 'usr/lib/rabbitmq/lib', rabbitIn(root), 'plugins'),
      ERL_INETRC: join(folder, 'inetrc'),
      ERL_EPMD_PORT: String(names.port),
      ERL_EPMD_ADDRESS: '127.0.0.1',
      HOME: folder,
      LC_ALL: 'C.UTF-8',
      RABBITMQ_NODENAME: `test${port}@localhost`,
      RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
      RABBITMQ_NODE_PORT: String(port),
      RABBITMQ_DIST_PORT: String(distribution),
      RABBITMQ_MNESIA_BASE: join(folder, 'db'),
      RABBITMQ_LOG_BASE: folder,
      RABBITMQ_LOGS: '-',
      RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq.conf'),
      RABBITMQ_CONF_ENV_FILE: join(folder, 'none'),
      RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'plugins'),
    }),
    args: () => [
      ...['-noinput', '-s', 'rabbit', 'boot', '-boot', 'start_sasl', '+W', 'w'],
      ...['-syslog', 'logger', '[]', '-syslog', 'syslog_error_logger', 'false'],
      ...['-kernel', 'prevent_overlapping_partitions', 'false'],
    ],
  })
  return { ...server, secureUrl: `amqps://127.0.0.1:${securePort}` }
}

const rabbitIn = (root: string): string =>
  readdirSync(join(root, 'usr/lib/rabbitmq/lib')).find((name) => name.startsWith('rabbitmq_server-'))!
