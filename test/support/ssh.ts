import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import ssh from 'ssh2'
import { testDebianServer } from './debian-server.ts'
import type { Owner, TestServer } from './servers.ts'

export interface SshServer extends TestServer {
  readonly user: string
  /** Opens it. */
  readonly privateKey: string
  /** Its own, as `ssh-keygen -l` writes it. */
  readonly hostKey: string
  /** Where files may be put. */
  readonly files: string
}

/** An OpenSSH for SFTP, which opens with a key. */
export async function testSsh(t: Owner): Promise<SshServer> {
  const [host, mine] = [ssh.utils.generateKeyPairSync('ed25519'), ssh.utils.generateKeyPairSync('ed25519')]
  let user = ''
  const server = await testDebianServer(t, {
    name: 'ssh',
    packages: ['openssh-server', 'openssh-sftp-server'],
    program: 'sshd',
    scheme: 'sftp',
    files: ({ port, folder }) => ({
      host_key: host.private,
      'sshd.conf': [
        `Port ${port}`,
        'ListenAddress 127.0.0.1',
        `HostKey ${folder}/host_key`,
        `AuthorizedKeysFile ${folder}/authorized_keys`,
        `PidFile ${folder}/sshd.pid`,
        'UsePAM no',
        'StrictModes no',
        'PasswordAuthentication no',
        'KbdInteractiveAuthentication no',
        'Subsystem sftp internal-sftp',
        '',
      ].join('\n'),
    }),
    prepare: ({ folder, user: name }, own) => {
      user = name
      writeFileSync(`${folder}/authorized_keys`, `${mine.public}\n`)
      mkdirSync(`${folder}/files`)
      for (const each of ['authorized_keys', 'files']) own(`${folder}/${each}`)
    },
    args: ({ folder }) => ['-D', '-e', '-f', `${folder}/sshd.conf`],
  })
  const key = Buffer.from(host.public.split(' ')[1]!, 'base64')
  const hostKey = `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=$/, '')}`
  return { ...server, user, privateKey: mine.private, hostKey, files: `${server.folder}/files` }
}
