import { execFileSync } from 'node:child_process'
import { testDebianServer } from './debian-server.ts'
import type { Owner, TestServer } from './servers.ts'

interface MosquittoOptions {
  readonly password: string
  readonly tls?: { readonly certificate: string; readonly key: string }
}

/** A mosquitto with the account `app`, which may not write to `forbidden`. */
export function testMosquitto(t: Owner, { password, tls }: MosquittoOptions): Promise<TestServer> {
  return testDebianServer(t, {
    name: 'mosquitto',
    packages: ['mosquitto', 'mosquitto-clients'],
    program: 'mosquitto',
    scheme: tls === undefined ? 'mqtt' : 'mqtts',
    files: ({ port, folder }) => ({
      'mosquitto.conf': [
        `listener ${port} 127.0.0.1`,
        'allow_anonymous false',
        `password_file ${folder}/passwords`,
        `acl_file ${folder}/acl`,
        ...(tls === undefined ? [] : [`certfile ${folder}/cert.pem`, `keyfile ${folder}/key.pem`]),
        '',
      ].join('\n'),
      acl: 'user app\ntopic readwrite #\ntopic deny forbidden\n',
      passwords: `app:${password}\n`,
      ...(tls !== undefined && { 'cert.pem': tls.certificate, 'key.pem': tls.key }),
    }),
    // The passwords become hashes.
    prepare: ({ folder, packages }) => {
      execFileSync(packages.binary('mosquitto_passwd'), ['-U', `${folder}/passwords`], { env: packages.environment })
    },
    args: ({ folder }) => ['-c', `${folder}/mosquitto.conf`],
  })
}
