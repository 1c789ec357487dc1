import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { bytesOf, decoded, givenBack, maxFileBytes } from '../content.ts'
import { threadModule } from '../thread-module.ts'
import { pictureOf } from './compress-image.ts'
import { CompressInput, CompressOutput } from './compress-properties.ts'
import type { ArchiveFormat, StreamFormat } from './compress-thread.ts'
import type { ArchiveEntry } from './zip.ts'

const work = threadModule<typeof import('./compress-thread.ts')>(new URL('./compress-thread.ts', import.meta.url))

type Run = TaskRun<CompressInput>

export const compress = definePlugin({
  id: 'transform.compress',
  name: 'Compress',
  category: 'Transforms',
  description:
    'Packs and unpacks: gzip, deflate, brotli, zstd, and archives of files as zip, tar and tar.gz; resizes and converts images.',
  effect: 'pure',
  input: CompressInput,
  output: CompressOutput,
  example: `name: pack-and-unpack
tasks:
  - name: pack
    type: transform.compress
    properties:
      format: zip
      files:
        - { name: a.txt, text: first }
        - { name: b/c.txt, text: second }
  - name: unpack
    type: transform.compress
    properties:
      operation: unpack
      file: '{{ outputs.pack.uri }}'
      as: text
`,
  async run(task) {
    const { operation } = task.input
    if (operation === 'image') return await pictureOf(task)
    return await (operation === 'pack' ? packed(task) : unpacked(task))
  },
})

async function packed(task: Run) {
  const { files, format: asked, level } = task.input
  const format = asked === 'auto' ? (files === undefined ? 'gzip' : 'zip') : asked
  const options = level === undefined ? {} : { level }
  if (isArchive(format)) {
    if (files === undefined) throw new TaskFailure('refused', `properties.files is needed for ${format}`)
    const entries: ArchiveEntry[] = []
    let sizeBytes = 0
    for (const { name, ...content } of files) {
      const bytes = await bytesOf(task, content)
      sizeBytes += bytes.length
      if (sizeBytes > maxFileBytes) throw new TaskFailure('refused', 'properties.files are larger than 64 MB together')
      entries.push({ name, bytes })
    }
    return { format, ...(await given(task, await work(task, 'packArchive', { format, entries, ...options }))) }
  }
  if (files !== undefined) {
    throw new TaskFailure('refused', `properties.files: ${format} holds one content; zip, tar and tar.gz hold files`)
  }
  return {
    format,
    ...(await given(task, await work(task, 'pack', { format, bytes: await contentOf(task), ...options }))),
  }
}

async function unpacked(task: Run) {
  const { format: asked, maxBytes, maxEntries } = task.input
  const bytes = await contentOf(task)
  const format = asked === 'auto' ? formatOf(bytes) : asked
  if (!isArchive(format)) {
    return { format, ...(await given(task, await work(task, 'unpack', { format, bytes, maxBytes }))) }
  }
  const entries = await work(task, 'unpackArchive', { format, bytes, maxBytes, maxEntries })
  const files: ({ name: string } & Awaited<ReturnType<typeof given>>)[] = []
  for (const entry of entries) {
    task.signal.throwIfAborted()
    files.push({ name: entry.name, ...(await given(task, entry.bytes)) })
  }
  return { format, files, sizeBytes: files.reduce((sum, file) => sum + file.sizeBytes, 0) }
}

async function contentOf(task: Run): Promise<Uint8Array> {
  const bytes = await bytesOf(task, task.input)
  const { text, textEncoding } = task.input
  if (text === undefined || textEncoding === 'utf-8') return bytes
  if (!/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(text)) throw new TaskFailure('refused', 'properties.text is not base64')
  return Buffer.from(text, 'base64')
}

async function given(task: Run, made: Uint8Array) {
  const { as } = task.input
  if (as === 'file') return await givenBack(task, made, true)
  const text = as === 'base64' ? Buffer.from(made).toString('base64') : decoded(made, 'What came out')
  return { ...(await givenBack(task, text, false)), sizeBytes: made.length }
}

function isArchive(format: StreamFormat | ArchiveFormat): format is ArchiveFormat {
  return format === 'zip' || format === 'tar' || format === 'tar.gz'
}

/** A gzip that holds a tar is asked for by its name. */
function formatOf(bytes: Uint8Array): StreamFormat | ArchiveFormat {
  const begins = (...magic: number[]) => magic.every((byte, at) => bytes[at] === byte)
  if (begins(0x1f, 0x8b)) return 'gzip'
  if (begins(0x50, 0x4b)) return 'zip'
  if (begins(0x28, 0xb5, 0x2f, 0xfd)) return 'zstd'
  if (Buffer.from(bytes.subarray(257, 262)).toString('latin1') === 'ustar') return 'tar'
  if (bytes[0] === 0x78) return 'deflate'
  throw new TaskFailure('refused', 'properties.format: this looks like none that is known; name the format')
}
