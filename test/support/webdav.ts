import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { testDebianServer } from './debian-server.ts'
import type { Owner, TestServer } from './servers.ts'

/** A lighttpd that speaks WebDAV with the account `app`. */
export function testWebdav(t: Owner, { password }: { readonly password: string }): Promise<TestServer> {
  return testDebianServer(t, {
    name: 'lighttpd',
    packages: ['lighttpd', 'lighttpd-mod-webdav'],
    program: 'lighttpd',
    scheme: 'http',
    files: ({ port, folder }) => ({
      users: `app:${password}\n`,
      'lighttpd.conf': [
        'server.modules = ("mod_auth", "mod_authn_file", "mod_webdav")',
        'server.bind = "127.0.0.1"',
        `server.port = ${port}`,
        `server.document-root = "${folder}/files"`,
        `server.upload-dirs = ("${folder}")`,
        `auth.backend = "plain"`,
        `auth.backend.plain.userfile = "${folder}/users"`,
        'auth.require = ("" => ("method" => "basic", "realm" => "test", "require" => "valid-user"))',
        'webdav.activate = "enable"',
        '',
      ].join('\n'),
    }),
    prepare: ({ folder }, own) => {
      mkdirSync(join(folder, 'files'))
      own(join(folder, 'files'))
    },
    args: ({ folder, packages }) => [
      '-D',
      '-f',
      `${folder}/lighttpd.conf`,
      '-m',
      join(packages.root, 'usr/lib/lighttpd'),
    ],
  })
}
