import { createHash } from 'node:crypto'
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import ssh from 'ssh2'
import t from 'tap'
import { parse } from 'yaml'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { testFtp } from '../support/ftp.ts'
import { testS3 } from '../support/s3-wire.ts'
import { testSsh } from '../support/ssh.ts'
import { testWebdav } from '../support/webdav.ts'
import { callPlugin, failure, files, openSockets } from './call-plugin.ts'

// Of tier `bus`, since servers are started.

t.setTimeout(120_000)
const tls = selfSignedCertificate()
const keys = {
  accessKeyId: 'AKIDEXAMPLE',
  secret: 'wJalrXUtnFEMI/K7MDENG',
  region: 'eu-central-1',
  sessionToken: 'token',
}
const [ftp, ftpes, ftps, sftp, webdav, s3] = await Promise.all([
  testFtp(t),
  testFtp(t, { tls }),
  testFtp(t, { tls, implicit: true }),
  testSsh(t),
  testWebdav(t, { password: 'right-word' }),
  testS3(t, keys),
])

const s3Keys = { user: keys.accessKeyId, password: keys.secret, region: keys.region, sessionToken: keys.sessionToken }
const trusted = { tls: { ca: tls.certificate } }
const sftpKeys = { user: sftp.user, privateKey: sftp.privateKey, hostKey: sftp.hostKey }

/** Servers, and the folder in which the test may do all. */
const servers = {
  ftp: { root: 'room', properties: { url: ftp.url } },
  ftpes: { root: 'room', properties: { url: ftpes.url, ...trusted } },
  ftps: { root: 'room', properties: { url: ftps.url, ...trusted } },
  sftp: { root: `${sftp.files}/room`, properties: { url: sftp.url, ...sftpKeys } },
  webdav: { root: '/room', properties: { url: webdav.url, protocol: 'webdav', user: 'app', password: 'right-word' } },
  s3: { root: 'room', properties: { url: s3.url, protocol: 's3', ...s3Keys } },
} as const
type Protocol = keyof typeof servers

const call = (protocol: Protocol, properties: Record<string, unknown>, options = {}) =>
  callPlugin('ftp.transfer', { ...servers[protocol].properties, ...properties }, options)

const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 256))
files.set('busbar:///files/bytes', bytes)
const sha256 = createHash('sha256').update(bytes).digest('hex')

for (const protocol of Object.keys(servers) as Protocol[]) {
  const { root } = servers[protocol]
  t.test(protocol, async (t) => {
    t.test('files come as they went, and are replaced, renamed, listed and deleted', async (t) => {
      await call(protocol, { operation: 'makeFolder', path: `${root}/in&out` })
      const name = 'a b&c.bin'
      for (const text of ['first', 'second']) await call(protocol, { operation: 'put', path: `${root}/${name}`, text })
      const put = await call(protocol, { operation: 'put', path: `${root}/${name}`, file: 'busbar:///files/bytes' })
      t.match(put, { sizeBytes: 100_000, sha256 })
      const got = await call(protocol, { operation: 'get', path: `${root}/${name}` })
      t.match(got, { sizeBytes: 100_000, sha256 })
      t.ok(bytes.equals(files.get(got.uri as string)!))
      const listed = await call(protocol, { operation: 'list', path: root })
      t.match(listed.files, [
        { name, kind: 'file', sizeBytes: 100_000 },
        { name: 'in&out', kind: 'folder', sizeBytes: null },
      ])
      t.match(listed.files, { length: 2 }, 'no parts are left')
      await call(protocol, { operation: 'put', path: `${root}/in&out/d`, text: 'd' })
      await call(protocol, { operation: 'rename', path: `${root}/${name}`, to: `${root}/in&out/d` })
      t.match(await call(protocol, { operation: 'list', path: `${root}/in&out` }), {
        files: [{ name: 'd', sizeBytes: 100_000 }],
      })
      await t.rejects(
        call(protocol, { operation: 'get', path: `${root}/in&out/d`, maxBytes: 10 }),
        failure('refused', /larger than 10/),
      )
      await call(protocol, { operation: 'delete', path: `${root}/in&out/d` })
      await call(protocol, { operation: 'deleteFolder', path: `${root}/in&out` })
      t.match((await call(protocol, { operation: 'list', path: root })).files, { length: 0 })
    })
    t.test('what is not there is refused', async (t) => {
      await t.rejects(call(protocol, { operation: 'get', path: `${root}/none` }), failure('refused'))
      if (protocol !== 's3')
        await t.rejects(call(protocol, { operation: 'delete', path: `${root}/none` }), failure('refused'))
      await t.rejects(
        call(protocol, { operation: 'rename', path: `${root}/none`, to: `${root}/x` }),
        failure('refused'),
      )
    })
    t.test('a server that is away can be tried again, one that is not allowed is refused', async (t) => {
      const asked = { operation: 'list', path: root }
      const { url } = servers[protocol].properties
      await t.rejects(call(protocol, { ...asked, url: url.replace(/:\d+/, ':1') }), /ECONNREFUSED|may not be fetched/)
      await t.rejects(call(protocol, asked, { allow: [] }), failure('refused', /may not be/))
    })
    t.test('a server that is silent is a time-out, and cancelling leaves no connection', async (t) => {
      const silent = createServer(() => undefined)
      await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
      t.teardown(() => silent.close())
      const { port } = silent.address() as { port: number }
      const url = servers[protocol].properties.url.replace(/:\d+/, `:${port}`)
      const asked = { operation: 'get', path: 'x', url }
      const before = openSockets()
      await t.rejects(call(protocol, { ...asked, timeoutMs: 50 }), failure('timeout'))
      const controller = new AbortController()
      silent.once('connection', () => controller.abort(new Error('cancelled')))
      await t.rejects(call(protocol, asked, { signal: controller.signal }), /cancelled|abort/)
      while (openSockets() > before + 2) await delay(5)
    })
  })
}

t.test('who one is has to be right, and is not told', async (t) => {
  for (const [protocol, properties, told] of [
    ['ftp', { user: 'me', password: 'hidden-word' }, /530/],
    ['sftp', { privateKey: ssh.utils.generateKeyPairSync('ed25519').private }, /neither password nor key/],
    ['sftp', { privateKey: 'hidden-word' }, /refused/],
    ['sftp', { hostKey: `SHA256:${'A'.repeat(43)}` }, /another key/],
    ['webdav', { password: 'hidden-word' }, /401/],
    ['s3', { password: 'hidden-word' }, /403.*SignatureDoesNotMatch/],
    ['s3', { user: 'other' }, /InvalidAccessKeyId/],
    ['ftpes', { tls: {} }, /TLS is not possible/],
    ['ftps', { tls: { ca: tls.certificate, serverName: 'other' } }, /TLS is not possible/],
  ] as const) {
    const refused = await call(protocol, { operation: 'list', path: '.', ...properties }).catch((error) => error)
    t.match(refused, { kind: 'refused', message: told }, `${protocol} ${Object.keys(properties)}`)
    t.notMatch(`${refused.message} ${refused.cause?.message}`, /hidden-word/)
  }
})

t.test('what cannot be asked is refused', async (t) => {
  for (const [protocol, properties, told] of [
    ['ftp', { operation: 'get' }, /properties\.path is needed for the operation get/],
    ['ftp', { operation: 'get', path: 'a\r\nDELE b' }, /line break/],
    ['ftp', { operation: 'put', path: 'a' }, /properties\.file or properties\.text/],
    ['ftp', { operation: 'put', path: 'a', text: 'long', maxBytes: 3 }, /larger than 3/],
    ['ftp', { operation: 'command', command: 'ls' }, /needs a server of sftp/],
    ['webdav', { operation: 'list', path: '/', protocol: undefined }, /webdav, s3 or git/],
    ['ftp', { operation: 'list', path: '/', protocol: 's3' }, /does not go with/],
    ['ftp', { operation: 'list', path: '/', url: 'file:///etc/passwd' }, /properties\.url/],
  ] as const)
    await t.rejects(call(protocol, properties), failure('refused', told))
  await t.rejects(call('ftp', { operation: 'list', path: '/', nonsense: 1 }), { message: /properties/ })
})

t.test('FTP: the server cannot lead connections elsewhere', async (t) => {
  let asked = 0
  const inside = createServer(() => asked++)
  await new Promise<void>((resolve) => inside.listen(0, '127.0.0.2', resolve))
  t.teardown(() => inside.close())
  const port = (inside.address() as { port: number }).port
  const bad = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.write('220 hello\r\n')
    socket.on('data', (chunk) => {
      const command = chunk.toString().slice(0, 4).trim()
      const answers: Readonly<Record<string, string>> = {
        EPSV: '500 no',
        PASV: `227 Entering Passive Mode (10,0,0,1,${port >> 8},${port & 255})`,
      }
      socket.write(`${answers[command] ?? '230 fine'}\r\n`)
    })
  })
  await new Promise<void>((resolve) => bad.listen(0, '127.0.0.1', resolve))
  t.teardown(() => bad.close())
  const url = `ftp://127.0.0.1:${(bad.address() as { port: number }).port}`
  await t.rejects(call('ftp', { operation: 'get', path: 'x', url }), failure('refused', /another host/))
  t.equal(asked, 0)
})

t.test('SSH: a password, and a command with its output', async (t) => {
  const sockets = new Set<ssh.Connection>()
  const server = new ssh.Server({ hostKeys: [ssh.utils.generateKeyPairSync('ed25519').private] }, (client) => {
    sockets.add(client)
    client.on('error', () => undefined).on('close', () => sockets.delete(client))
    client.on('authentication', (context) => {
      if (context.method === 'password' && context.username === 'app' && context.password === 'right-word')
        context.accept()
      else context.reject(['password'])
    })
    client.on('session', (accept) => {
      accept().on('exec', (acceptExec, _reject, { command }) => {
        const stream = acceptExec()
        if (command === 'forever') return
        stream.write(`ran ${command}`)
        stream.stderr.write('a warning')
        stream.exit(3)
        stream.end()
      })
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const to = {
    url: `sftp://127.0.0.1:${(server.address() as { port: number }).port}`,
    user: 'app',
    password: 'right-word',
    operation: 'command',
  }
  const run = (properties: Record<string, unknown>, options = {}) =>
    callPlugin('ftp.transfer', { ...to, ...properties }, options)
  t.match(await run({ command: 'df -h' }), { exitCode: 3, stdout: 'ran df -h', stderr: 'a warning' })
  await t.rejects(run({ command: 'df', maxBytes: 2 }), failure('refused', /larger than 2/))
  await t.rejects(run({ command: 'df', password: 'x' }), failure('refused', /neither password nor key/))
  const controller = new AbortController()
  const running = run({ command: 'forever' }, { signal: controller.signal }).catch((error) => error)
  while (sockets.size === 0) await delay(5)
  controller.abort(new Error('cancelled'))
  t.match(await running, { message: 'cancelled' })
  while (sockets.size > 0) await delay(5)
})

t.test('its example runs', async (t) => {
  await call('sftp', { operation: 'put', path: `${sftp.files}/orders.csv`, text: 'a,b' })
  const [{ properties }] = parse(
    catalogue.find(({ manifest }) => manifest.id === 'ftp.transfer')!.manifest.example,
  ).tasks
  const mine = { ...properties, url: sftp.url, ...sftpKeys, path: `${sftp.files}/orders.csv`, password: undefined }
  t.match(await callPlugin('ftp.transfer', JSON.parse(JSON.stringify(mine))), { sizeBytes: 3 })
})
