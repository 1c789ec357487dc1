import { createHash } from 'node:crypto'
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { pack } from 'tar-stream'
import { missingSegments, restoreCommand } from '../../workers/provisioning/local/backup/archive.ts'
import { newBackupId } from '../../workers/provisioning/local/backup/backup-record.ts'
import { checkManifest, parseManifest } from '../../workers/provisioning/local/backup/manifest.ts'
import {
  chooseBackup,
  parseTargetTime,
  recoveryTargetTime,
  restorableWindow,
} from '../../workers/provisioning/local/backup/restore-target.ts'
import { expiredBackups, expiresAt, unneededWal } from '../../workers/provisioning/local/backup/retention.ts'
import { untar } from '../../workers/provisioning/local/backup/untar.ts'
import { isArchived, nextSegment, segmentOfLsn } from '../../workers/provisioning/local/backup/wal-name.ts'
import { inOrder } from '../../workers/provisioning/local/snapshots/dump-objects.ts'
import { newSnapshotId } from '../../workers/provisioning/local/snapshots/snapshot-record.ts'

const mib = 1024 * 1024
const folder = mkdtempSync(join(tmpdir(), 'care-pure-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

t.test('names of log segments', async (t) => {
  t.equal(segmentOfLsn('0/16B3748', 1, 16 * mib), '000000010000000000000001')
  t.equal(segmentOfLsn('A/FF000000', 3, 16 * mib), '000000030000000A000000FF')
  t.equal(segmentOfLsn('1/100000', 1, mib), '000000010000000100000001')
  t.equal(nextSegment('0000000100000001000000FF', 16 * mib), '000000010000000200000000')
  t.equal(nextSegment('000000010000000100000FFF', mib), '000000010000000200000000')
  const names = [
    '000000010000000000000001',
    '000000010000000000000001.00000028.backup',
    '00000002.history',
    '000000010000000000000002.partial',
  ]
  for (const name of names) t.ok(isArchived(name), name)
  for (const name of ['.wal-archive', '.000000010000000000000001.tmp', '000000010000000000000001.gz', 'x.history'])
    t.notOk(isArchived(name), name)
  const run = (...numbers: number[]) =>
    numbers.map((n) => `0000000100000000000000${n.toString(16).padStart(2, '0').toUpperCase()}`)
  t.strictSame(missingSegments(run(1, 2, 3), 16 * mib), [])
  t.strictSame(missingSegments(run(1, 3, 6), 16 * mib), run(2, 4))
  t.strictSame(missingSegments([...run(1, 2), '000000020000000000000002'], 16 * mib), [], 'a timeline may end anywhere')
  const next = ['000000020000000000000003', '000000020000000000000004']
  t.strictSame(missingSegments([...run(1, 2), ...next], 16 * mib), [])
  t.strictSame(
    missingSegments([...run(1, 2), next[1]!], 16 * mib),
    run(3),
    'but nothing is missing where the next begins',
  )
})

t.test('times to restore to', async (t) => {
  const cases: [string, string | undefined][] = [
    ['2026-11-20T19:40:32.526Z', '2026-11-20 19:40:32.526+00'], ['2026-11-20T19:40:32Z', '2026-11-20 19:40:32.000+00'], ['2026-11-20T21:40:32.5+02:00', '2026-11-20 19:40:32.500+00'],
    ['2026-11-20 19:40:32', '2026-11-20 19:40:32.000+00'], ['2026-11-20T19:40:32.526999999', '2026-11-20 19:40:32.526+00'], ['2024-02-29T00:00:00z', '2024-02-29 00:00:00.000+00'],
    ['2026-02-30T00:00:00Z', undefined], ['2026-13-01T00:00:00Z', undefined], ['yesterday', undefined], ['', undefined], ['2026-11-20', undefined], ['1763667632', undefined],
    ['2026-11-20T25:00:00Z', undefined], ["2026-11-20T19:40:32Z'; x", undefined], ['2026-11-20T19:40:32 CET', undefined],
  ] // biome-ignore format: a table
  for (const [text, expected] of cases) {
    if (expected === undefined)
      t.throws(() => parseTargetTime(text), { status: 400, field: 'targetTime', message: /ISO 8601/ }, text)
    else t.equal(recoveryTargetTime(parseTargetTime(text)), expected, text)
  }
})

t.test('the backup a recovery begins with', async (t) => {
  const backups = [
    { id: 'a', consistentAt: 100 },
    { id: 'b', consistentAt: 200 },
    { id: 'c', consistentAt: 300 },
  ]
  const source = { backups, logFolders: [], liveAt: 1000 }
  const choose = (at: number, backupId?: string) =>
    chooseBackup(source, { kind: 'time', at }, { backupId, now: 1000 }).id
  t.strictSame([choose(100), choose(199), choose(200), choose(1000), choose(1000, 'a')], ['a', 'a', 'b', 'c', 'a'])
  t.equal(chooseBackup(source, { kind: 'latest' }, { now: 1000 }).id, 'c')
  t.equal(chooseBackup(source, { kind: 'backup' }, { backupId: 'b', now: 1000 }).id, 'b')
  t.throws(() => choose(99), {
    status: 422,
    field: 'targetTime',
    message: /before the first backup/,
    details: { earliestRestorableTime: '1970-01-01T00:00:00.100Z', latestRestorableTime: '1970-01-01T00:00:01.000Z' },
  })
  t.throws(() => choose(1001), { status: 422, message: /future/ })
  t.throws(() => choose(250, 'c'), { status: 422, message: /backup c is later/ })
  t.throws(() => choose(250, 'x'), { status: 404, field: 'backupId', message: /not found/ })
  t.throws(() => chooseBackup({ ...source, liveAt: 500 }, { kind: 'time', at: 600 }, { now: 1000 }), {
    status: 422,
    message: /after the last archived/,
  })
  const none = { backups: [], logFolders: [], liveAt: 1000 }
  t.throws(() => chooseBackup(none, { kind: 'latest' }, { now: 1000 }), { status: 422, message: /no backup/ })
  t.throws(() => chooseBackup(none, { kind: 'time', at: 5 }, { now: 1000 }), { status: 422, message: /no backup/ })
  t.strictSame(restorableWindow(none), { earliest: null, latest: null })
  t.strictSame(restorableWindow({ backups, logFolders: [join(folder, 'none')] }), { earliest: null, latest: null })
})

t.test('what retention lets go', async (t) => {
  const day = 86_400_000
  const backup = (d: number, result?: 'OK' | 'FAILED') =>
    ({ consistentAt: d * day, verified: result === undefined ? null : { result } }) as never
  const expired = (...backups: ReturnType<typeof backup>[]) =>
    expiredBackups(backups, { retentionDays: 7, now: 20 * day }).map(
      (b: { consistentAt: number }) => b.consistentAt / day,
    )
  t.strictSame(
    expired(backup(10), backup(12), backup(14), backup(19)),
    [10],
    'the newest from before the time is still needed',
  )
  t.strictSame(expired(backup(1)), [], 'the newest stays, however old')
  t.strictSame(expired(backup(1), backup(2, 'FAILED')), [], 'one that failed its check covers nothing')
  t.strictSame(expired(backup(1), backup(5, 'OK'), backup(6, 'FAILED'), backup(15)), [1, 6])
  const of = (at: number) => ({ consistentAt: at }) as never
  t.strictSame([expiresAt(of(day), undefined, 7), expiresAt(of(day), of(2 * day), 7)], [null, 9 * day])
  const names = [
    '000000010000000000000001',
    '000000010000000000000002',
    '000000010000000000000001.00000028.backup',
    '000000020000000000000003',
    '00000002.history',
    '.wal-archive',
    'note.txt',
  ]
  t.strictSame(unneededWal(names, [{ beginWal: '000000020000000000000002' } as never]), [
    '000000010000000000000001',
    '000000010000000000000001.00000028.backup',
  ])
  t.strictSame(unneededWal(names, []), [])
})

t.test('names of backups and snapshots, and words for the shell', async (t) => {
  const at = new Date('2026-11-21T07:05:09.123Z')
  t.equal(
    newBackupId('shop', at, () => false),
    'shop-backup-20261121-070509',
  )
  t.equal(
    newBackupId('shop', at, (id) => !id.endsWith('-2')),
    'shop-backup-20261121-070509-2',
  )
  t.equal(
    newSnapshotId('shop', at, () => false),
    'shop-20261121-070509',
  )
  t.equal(
    restoreCommand(["/a 'b'/100%", '/c']),
    `cp '/a '\\''b'\\''/100%%/'"%f" "%p" 2>/dev/null || cp '/c/'"%f" "%p" 2>/dev/null`,
  )
  t.throws(() => restoreCommand(['a\nb']), { message: /impossible name/ })
})

t.test('a stream of files is unpacked inside its folder only', async (t) => {
  const tarOf = async (...entries: [object, string?][]) => {
    const archive = pack()
    for (const [header, content] of entries) archive.entry(header as never, content ?? '')
    archive.finalize()
    const chunks: Buffer[] = []
    for await (const chunk of archive as AsyncIterable<Buffer>) chunks.push(chunk)
    return Buffer.concat(chunks)
  }
  const unpack = async (name: string, bytes: Buffer, step: number) => {
    mkdirSync(join(folder, name))
    const target = untar(join(folder, name))
    try {
      for (let at = 0; at < bytes.length; at += step) await target.write(bytes.subarray(at, at + step))
      await target.end()
    } finally {
      await target.drop()
    }
  }
  const content = 'x'.repeat(1500)
  const good = await tarOf(
    [{ name: 'base', type: 'directory' }],
    [{ name: 'base/1' }, content],
    [{ name: 'empty' }],
    [{ name: 'link', type: 'symlink', linkname: 'empty' }],
    [{ name: 'deep/er/2' }, 'y'],
  )
  for (const step of [1, 511, 512, 513, 100_000]) {
    await unpack(`good-${step}`, good, step)
    const at = (name: string) => join(folder, `good-${step}`, name)
    t.strictSame(
      [readFileSync(at('base/1'), 'utf8'), readFileSync(at('empty'), 'utf8'), readFileSync(at('deep/er/2'), 'utf8')],
      [content, '', 'y'],
    )
    t.ok(lstatSync(at('link')).isSymbolicLink() && lstatSync(at('base/1')).mode % 0o1000 === 0o600)
  }
  await t.rejects(unpack('outside', await tarOf([{ name: '../escaped' }, 'x']), 512), { message: /outside its folder/ })
  t.notOk(existsSync(join(folder, 'escaped')))
  await t.rejects(unpack('twice', await tarOf([{ name: 'a' }, 'x'], [{ name: 'a' }, 'y']), 512), {
    code: 'EEXIST',
    message: /EEXIST/,
  })
  await t.rejects(unpack('short', good.subarray(0, 1024), 512), { message: /ended the backup early/ })
  const changed = Buffer.from(good)
  changed[3] = 0x41
  await t.rejects(unpack('changed', changed, 512), { message: /arrived damaged/ })
})

t.test('a manifest tells what is missing, additional and changed', async (t) => {
  const data = join(folder, 'data')
  mkdirSync(join(data, 'base'), { recursive: true })
  mkdirSync(join(data, 'pg_wal'))
  const sha = (text: string) => createHash('sha256').update(text).digest('hex')
  const files = { 'base/1': 'one', 'base/2': 'two', PG_VERSION: '18\n' }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(data, name), text)
  writeFileSync(join(data, 'pg_wal', 'ignored'), '')
  const list = Object.entries(files).map(([Path, text]) =>
    JSON.stringify({ Path, Size: text.length, 'Checksum-Algorithm': 'SHA256', Checksum: sha(text) }),
  )
  const head = `{ "PostgreSQL-Backup-Manifest-Version": 2,\n"Files": [\n${list.join(',\n')}\n],\n`
  writeFileSync(join(data, 'backup_manifest'), `${head}"Manifest-Checksum": "${sha(head)}"}\n`)
  t.strictSame(await checkManifest(data), [])
  writeFileSync(join(data, 'base/1'), 'eno')
  writeFileSync(join(data, 'base/2'), 'longer')
  writeFileSync(join(data, 'base/3'), '')
  rmSync(join(data, 'PG_VERSION'))
  t.strictSame(await checkManifest(data), [
    'base/3 is not in the manifest',
    'base/1 was changed',
    'base/2 has 6 bytes instead of 3',
    'PG_VERSION is missing',
  ])
  t.strictSame(await checkManifest(data, { manifestSha256: 'other' }), ['the manifest was changed'])
  t.throws(() => parseManifest(Buffer.from(`${head.replace('18', '17')}"Manifest-Checksum": "${sha('x')}"}\n`)), {
    message: /was changed/,
  })
  t.throws(() => parseManifest(Buffer.from('{')), { message: /cannot be read/ })
  rmSync(join(data, 'backup_manifest'))
  t.strictSame(await checkManifest(data), ['the manifest is missing'])
})

t.test('a dump makes what is needed first, and cuts circles', async (t) => {
  const object = (key: string, rank: number, oid = 1) => ({ key, rank, oid, sql: key })
  const order = (objects: ReturnType<typeof object>[], edges: [string, string][]) =>
    inOrder(objects, edges.map(([needs, needed]) => ({ needs, needed }))).map(({ key }) => key).join('') // biome-ignore format: one chain
  t.equal(order([object('b', 2), object('a', 1), object('c', 1, 2)], []), 'acb')
  t.equal(
    order(
      [object('a', 1), object('b', 2), object('c', 3)],
      [
        ['a', 'c'],
        ['c', 'b'],
      ],
    ),
    'bca',
  )
  t.equal(
    order(
      [object('a', 1), object('b', 2)],
      [
        ['a', 'b'],
        ['b', 'a'],
        ['a', 'unknown'],
        ['a', 'a'],
      ],
    ),
    'ba',
  )
  const chain = Array.from({ length: 20_000 }, (_, n) => object(`${n},`, 1, n))
  t.equal(
    inOrder(
      chain,
      chain.slice(1).map(({ key }, n) => ({ needs: `${n},`, needed: key })),
    )[0]!.key,
    '19999,',
  )
})
