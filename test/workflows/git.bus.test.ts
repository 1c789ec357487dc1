import { createServer, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { testGit } from '../support/git.ts'
import { callPlugin, failure, files, openSockets } from './call-plugin.ts'

t.setTimeout(60_000)
const server = await testGit(t, { password: 'right-word' })
const account = { protocol: 'git', user: 'app', password: 'right-word' }

/** A task on a repository of the server. */
function on(repository: string) {
  return (properties: Record<string, unknown>, options = {}) =>
    callPlugin('ftp.transfer', { url: `${server.url}/${repository}`, ...account, ...properties }, options)
}

const author = 'Bob <bob@example.com>'

t.test('a repository is begun, changed and read, each change a commit that is pushed once', async (t) => {
  server.make('shop')
  const call = on('shop')
  const git = (...args: string[]) => server.git('shop', ...args)
  await t.rejects(call({ operation: 'get', path: 'a' }), failure('refused', /empty/))
  files.set('busbar:///files/bytes', Buffer.from([0, 255]))
  const first = { 'a.txt': 'A', 'd/b.bin': 'busbar:///files/bytes' }
  const made = await call({ operation: 'commit', files: first, message: 'First', author })
  t.equal(git('log', '--format=%H %an %ae %s', 'main').trim(), `${made.commit} Bob bob@example.com First`)
  t.same(Buffer.from(git('show', 'main:d/b.bin'), 'utf8'), Buffer.from('\0\ufffd'))

  t.match(
    await call({ operation: 'commit', files: { 'a.txt': 'A' } }, { key: 'e1/2' }),
    { commit: made.commit },
    'nothing new',
  )
  const put = { operation: 'put', path: 'd/c.txt', text: 'C' }
  const after = await call(put, { key: 'e1/3' })
  await call({ operation: 'rename', path: 'd/c.txt', to: 'e/c.txt' }, { key: 'e1/4' })
  await call({ operation: 'delete', path: 'a.txt' }, { key: 'e1/5' })
  t.match(
    await call(put, { key: 'e1/3' }),
    { commit: after.commit },
    'a second attempt finds what the first has pushed',
  )
  t.equal(git('ls-tree', '-r', '--name-only', 'main'), 'd/b.bin\ne/c.txt\n')
  t.equal(git('fsck', '--full', '--strict'), '')

  const got = await call({ operation: 'get', path: 'e/c.txt' })
  t.match(got, { sizeBytes: 1, commit: git('rev-parse', 'main').trim() })
  t.equal(String(files.get(String(got.uri))), 'C')
  t.match(await call({ operation: 'list', path: '' }), {
    files: [
      { name: 'd', kind: 'folder' },
      { name: 'e', kind: 'folder' },
    ],
  })
  t.match(await call({ operation: 'list', path: 'd', ref: made.commit }), { files: [{ name: 'b.bin', kind: 'file' }] })
})

t.test('a clone has all files of a branch, a tag or a commit', async (t) => {
  server.make('wide')
  const call = on('wide')
  const { commit } = await call({ operation: 'commit', files: { 'src/a.ts': 'one', 'b.md': 'two' } })
  server.git('wide', 'tag', '-a', 'v1', '-m', 'v1', String(commit))
  await call({ operation: 'commit', files: { 'b.md': null }, ref: 'feature/x' }, { key: 'e1/2' })
  for (const [ref, names] of [
    [undefined, ['b.md', 'src/a.ts']],
    ['v1', ['b.md', 'src/a.ts']],
    [commit, ['b.md', 'src/a.ts']],
    ['feature/x', ['src/a.ts']],
  ] as const) {
    const { uri } = await call({ operation: 'clone', ...(ref !== undefined && { ref }) })
    const archive = await callPlugin('transform.compress', {
      operation: 'unpack',
      format: 'tar.gz',
      file: uri,
      as: 'text',
    })
    t.same((archive.files as { name: string }[]).map(({ name }) => name).sort(), names, String(ref))
  }
  await t.rejects(call({ operation: 'clone', maxBytes: 4 }), failure('refused', /more than 4 bytes/))
})

t.test('what others push meanwhile is built upon', async (t) => {
  server.make('busy')
  await on('busy')({ operation: 'commit', files: { start: '' } })
  const names = ['a', 'b', 'c']
  await Promise.all(
    names.map((name) => on('busy')({ operation: 'put', path: name, text: name }, { key: name }).catch(() => null)),
  )
  // Whoever lost three times in a row comes again.
  for (const name of names) await on('busy')({ operation: 'put', path: name, text: name }, { key: name })
  t.equal(server.git('busy', 'ls-tree', '--name-only', 'main'), 'a\nb\nc\nstart\n')
  t.equal(server.git('busy', 'rev-list', '--count', 'main'), '4\n')
})

t.test('what the server refuses, and what is not there', async (t) => {
  server.make('closed')
  await on('closed')({ operation: 'put', path: 'a', text: 'a' })
  server.close('closed')
  const refused: readonly [Record<string, unknown>, RegExp][] = [
    [{ operation: 'put', path: 'b', text: 'b' }, /pre-receive hook declined/],
    [{ operation: 'clone', password: 'wrong-word' }, /401/],
    [{ operation: 'clone', url: `${server.url}/none` }, /404/],
    [{ operation: 'clone', ref: 'none' }, /not there/],
    [{ operation: 'get', path: 'none' }, /no file none/],
    [{ operation: 'delete', path: 'none' }, /no file none/],
    [{ operation: 'list', path: 'a' }, /no folder a/],
    [{ operation: 'put', path: '../a', text: '' }, /no path in a repository/],
    [{ operation: 'put', path: '.git/config', text: '' }, /no path in a repository/],
    [{ operation: 'commit' }, /properties\.files/],
    [{ operation: 'makeFolder', path: 'x' }, /no empty folders/],
    [{ operation: 'command', command: 'ls' }, /sftp/],
    [{ operation: 'clone', protocol: 'webdav' }, /needs the protocol git/],
  ]
  for (const [at, [properties, message]] of refused.entries()) {
    await t.rejects(
      on('closed')(properties, { key: `e1/${at}` }),
      failure('refused', message),
      JSON.stringify(properties),
    )
  }
  await t.rejects(on('closed')({ operation: 'clone' }, { allow: [] }), failure('refused', /may not be/))
})

t.test('a server that is away or silent, and a task that is cancelled', async (t) => {
  const sockets = new Set<Socket>()
  const silent = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined))
  })
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  const asked = { operation: 'clone', url: `http://127.0.0.1:${port}/a` }
  const before = openSockets()
  await t.rejects(on('a')({ ...asked, timeoutMs: 50 }), failure('timeout'))
  const controller = new AbortController()
  silent.once('connection', () => controller.abort(new Error('cancelled')))
  await t.rejects(on('a')(asked, { signal: controller.signal }), /cancelled|abort/)
  for (const socket of sockets) socket.destroy()
  while (openSockets() > before) await delay(5)
  silent.close()
  await new Promise((resolve) => silent.once('close', resolve))
  await t.rejects(on('a')(asked), failure('unavailable'))
})
