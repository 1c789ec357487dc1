import { testDebianServer } from './debian-server.ts'
import type { Owner, TestServer } from './servers.ts'

/** A Redis that keeps nothing on disk; with a password, and speaking TLS when it is given a certificate. */
export function testRedis(
  t: Owner,
  {
    password,
    tls,
  }: { readonly password: string; readonly tls?: { readonly certificate: string; readonly key: string } },
): Promise<TestServer> {
  return testDebianServer(t, {
    name: 'redis',
    packages: ['redis-server', 'redis-tools'],
    program: 'redis-server',
    scheme: tls === undefined ? 'redis' : 'rediss',
    files: ({ port, folder }) => ({
      'redis.conf': [
        'bind 127.0.0.1',
        `dir ${folder}`,
        'save ""',
        'appendonly no',
        `requirepass ${password}`,
        ...(tls === undefined
          ? [`port ${port}`]
          : [
              'port 0',
              `tls-port ${port}`,
              'tls-cert-file cert.pem',
              'tls-key-file key.pem',
              'tls-ca-cert-file cert.pem',
              'tls-auth-clients no',
            ]),
      ].join('\n'),
      ...(tls !== undefined && { 'cert.pem': tls.certificate, 'key.pem': tls.key }),
    }),
    args: ({ folder }) => [`${folder}/redis.conf`],
  })
}
