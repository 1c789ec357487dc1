import { chmodSync, mkdirSync } from 'node:fs'
import { testDebianServer } from './debian-server.ts'
import type { Owner, TestServer } from './servers.ts'

interface FtpOptions {
  readonly tls?: { readonly certificate: string; readonly key: string }
  /** TLS from the start. */
  readonly implicit?: boolean
}

/** A vsftpd for guests, who may do all in the folder `files`; with a certificate it asks for TLS. */
export function testFtp(t: Owner, { tls, implicit = false }: FtpOptions = {}): Promise<TestServer> {
  const yes = (...names: readonly string[]) => names.map((name) => `${name}=YES`)
  return testDebianServer(t, {
    name: 'ftp',
    packages: ['vsftpd'],
    program: 'vsftpd',
    scheme: tls === undefined ? 'ftp' : implicit ? 'ftps' : 'ftpes',
    files: ({ port, folder, user }) => ({
      'vsftpd.conf': [
        ...yes(
          'listen',
          'run_as_launching_user',
          'anonymous_enable',
          'write_enable',
          'anon_upload_enable',
          'pasv_enable',
        ),
        ...yes('anon_mkdir_write_enable', 'anon_other_write_enable', 'allow_writeable_chroot', 'no_anon_password'),
        `ftp_username=${user}`,
        `nopriv_user=${user}`,
        'background=NO',
        'listen_address=127.0.0.1',
        `listen_port=${port}`,
        `anon_root=${folder}/files`,
        `secure_chroot_dir=${folder}/empty`,
        'anon_umask=022',
        'anon_world_readable_only=NO',
        'seccomp_sandbox=NO',
        'xferlog_enable=NO',
        'connect_from_port_20=NO',
        'idle_session_timeout=60',
        ...(tls === undefined
          ? []
          : [
              ...yes('ssl_enable', 'allow_anon_ssl', 'force_anon_logins_ssl', 'force_anon_data_ssl'),
              `implicit_ssl=${implicit ? 'YES' : 'NO'}`,
              'require_ssl_reuse=NO',
              'ssl_ciphers=HIGH',
              `rsa_cert_file=${folder}/cert.pem`,
              `rsa_private_key_file=${folder}/key.pem`,
            ]),
        '',
      ].join('\n'),
      ...(tls !== undefined && { 'cert.pem': tls.certificate, 'key.pem': tls.key }),
    }),
    prepare: ({ folder }, own) => {
      for (const name of ['files', 'empty']) {
        mkdirSync(`${folder}/${name}`)
        own(`${folder}/${name}`)
        chmodSync(`${folder}/${name}`, name === 'files' ? 0o755 : 0o555)
      }
    },
    args: ({ folder }) => [`${folder}/vsftpd.conf`],
  })
}
