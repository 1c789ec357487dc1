import { crc32, gzipSync } from 'node:zlib'
import t from 'tap'
import { pack as tarPack } from 'tar-stream'
import yazl from 'yazl'
import { failure, files } from './call-plugin.ts'
import { type Given, pluginsOf, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, refuse } = pluginsOf('transform')

const wrong: Wrong = [
  ['compress', { format: 'zip', text: 'x' }, /properties.files is needed for zip/],
  ['compress', { format: 'gzip', files: [] }, /gzip holds one content/],
  ['compress', { operation: 'unpack', text: 'what is this' }, /none that is known; name the format/],
  ['compress', { operation: 'unpack', text: 'x', format: 'gzip' }, /not packed with gzip/],
  ['compress', { operation: 'unpack', text: '!', textEncoding: 'base64' }, /properties.text is not base64/],
  ['compress', { files: [{ name: '../a', text: '' }] }, /"..\/a" leads out of the archive/],
  [
    'compress',
    {
      files: [
        { name: 'a', text: '' },
        { name: 'a', text: '' },
      ],
    },
    /a is there twice/,
  ],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

async function bytesIn(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts)
}

t.test('archives of others', async (t) => {
  const unpack = (bytes: Uint8Array, more: Given = {}) => {
    files.set('archive', bytes)
    return call('compress', { operation: 'unpack', file: 'archive', as: 'text', ...more })
  }
  const tar = async (...entries: readonly Parameters<ReturnType<typeof tarPack>['entry']>[0][]) => {
    const packing = tarPack()
    for (const entry of entries) packing.entry(entry, 'x'.repeat(entry.size ?? 0))
    packing.finalize()
    return await bytesIn(packing as unknown as AsyncIterable<Uint8Array>)
  }
  const zip = async (name: string, content: Buffer, mode = 0o100644) => {
    const packing = new yazl.ZipFile()
    packing.addBuffer(content, 'a'.repeat(name.length), { mode })
    packing.end()
    const bytes = await bytesIn(packing.outputStream as AsyncIterable<Uint8Array>)
    // The library refuses to write such names; they stand in there twice.
    return Buffer.from(bytes.toString('latin1').replaceAll('a'.repeat(name.length), name), 'latin1')
  }

  t.match(await unpack(await tar({ name: './d', type: 'directory' }, { name: './d/f', size: 2 })), {
    format: 'tar',
    files: [{ name: 'd/f', text: 'xx' }],
  })
  t.match(await unpack(gzipSync(await tar({ name: 'f', size: 1 })), { format: 'tar.gz' }), {
    files: [{ name: 'f' }],
    sizeBytes: 1,
  })
  const outside = /leads out of the archive/
  for (const name of ['../evil', '/etc/evil', 'a/../../evil', 'C:\\evil', 'a\\..\\evil']) {
    await t.rejects(unpack(await tar({ name, size: 1 })), failure('refused', outside), `tar ${name}`)
    await t.rejects(
      unpack(await zip(name, Buffer.from('x'))),
      failure('refused', /leads out of the archive|relative path|absolute path|characters in fileName/),
      `zip ${name}`,
    )
  }
  await t.rejects(
    unpack(await tar({ name: 'l', type: 'symlink', linkname: '/etc/passwd' })),
    failure('refused', 'l is a link, and archives with links are not unpacked'),
  )
  await t.rejects(unpack(await zip('l', Buffer.from('/etc'), 0o120777)), failure('refused', /l is a link/))
  await t.rejects(unpack(await tar({ name: 'f', type: 'fifo' })), failure('refused', 'f is a fifo, not a file'))
  await t.rejects(
    unpack(await tar({ name: 'f', size: 1 }, { name: 'f', size: 1 })),
    failure('refused', 'f is there twice'),
  )
  await t.rejects(
    unpack(await tar({ name: 'f' }, { name: 'g' }), { maxEntries: 1 }),
    failure('refused', 'There are more than 1 entries'),
  )

  const zeros = Buffer.alloc(5_000_000)
  const tooLarge = failure('refused', 'It is larger than 1000000 bytes once unpacked')
  for (const format of ['gzip', 'deflate', 'brotli', 'zstd']) {
    const { text } = await call('compress', {
      text: zeros.toString('base64'),
      textEncoding: 'base64',
      format,
      as: 'base64',
    })
    await t.rejects(
      call('compress', { operation: 'unpack', text, textEncoding: 'base64', format, maxBytes: 1_000_000 }),
      tooLarge,
      format,
    )
  }
  await t.rejects(unpack(await zip('f', zeros), { maxBytes: 1_000_000 }), tooLarge)
  await t.rejects(
    unpack(gzipSync(await tar({ name: 'f', size: 5_000_000 })), { format: 'tar.gz', maxBytes: 1_000_000 }),
    tooLarge,
  )

  const lying = await zip('f', Buffer.from('x'))
  const place = lying.indexOf(Buffer.from([0x50, 0x4b, 1, 2]))
  lying.writeUInt32LE(crc32('y'), place + 16)
  await t.rejects(unpack(lying), failure('refused', 'f is damaged: its CRC-32 is another'))
  await t.rejects(unpack(lying.subarray(0, 20), { format: 'zip' }), failure('refused', /no zip archive/))
  await t.rejects(unpack((await tar({ name: 'f', size: 600 })).subarray(0, 700)), failure('refused', /no tar archive/))
  // A workbook is an archive as well.
  files.set('bomb', await zip('xl/workbook.xml', Buffer.alloc(129 * 1024 ** 2)))
  await t.rejects(call('csv', { format: 'xlsx', file: 'bomb' }), failure('refused', /once unpacked/))
})

t.test('the same files make the same archive', async (t) => {
  for (const format of ['zip', 'tar', 'tar.gz']) {
    const pack = async () =>
      files.get(String((await call('compress', { files: [{ name: 'a', text: 'x' }], format })).uri))!
    t.equal(Buffer.compare(await pack(), await pack()), 0, format)
  }
})
