import sharp from 'sharp'
import t from 'tap'
import { callPlugin, failure, files } from './call-plugin.ts'
import { childrenOf } from './left-behind.ts'

t.setTimeout(60_000)

/** Left half red, right half blue. */
async function halves(width: number, height: number, format: 'png' | 'jpeg' | 'tiff') {
  const blue = { create: { width, height, channels: 3, background: '#0000ff' } } as const
  const red = { create: { width: Math.floor(width / 2), height, channels: 3, background: '#ff0000' } } as const
  const left = await sharp(red).png().toBuffer()
  return await sharp(blue)
    .composite([{ input: left, left: 0, top: 0 }])
    .withExif({ IFD0: { Artist: 'Ada' } })
    .toFormat(format)
    .toBuffer()
}

async function pictureOf(uri: unknown) {
  const { data, info } = await sharp(files.get(String(uri))!)
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true })
  const at = (x: number, y: number) => [...data.subarray((y * info.width + x) * 3, (y * info.width + x) * 3 + 3)]
  return { ...info, at }
}

const convert = (image: Record<string, unknown>, more: Record<string, unknown> = {}, options = {}) =>
  callPlugin('transform.compress', { operation: 'image', file: 'busbar:///files/wide', image, ...more }, options)

t.before(async () => {
  files.set('busbar:///files/wide', await halves(400, 200, 'png'))
  files.set('busbar:///files/camera', await halves(40, 20, 'jpeg'))
})

t.test('a picture gets another size', async (t) => {
  for (const [image, width, height] of [
    [{}, 400, 200],
    [{ width: 100 }, 100, 50],
    [{ height: 20 }, 40, 20],
    [{ width: 100, height: 100 }, 100, 50],
    [{ width: 1_000 }, 400, 200],
    [{ width: 100, height: 100, fit: 'cover' }, 100, 100],
    [{ width: 100, height: 100, fit: 'contain' }, 100, 100],
    [{ width: 100, height: 100, fit: 'fill' }, 100, 100],
  ] as const) {
    const made = await convert(image)
    t.match(made, { width, height, format: 'png' }, JSON.stringify(image))
    t.match(await pictureOf(made.uri), { width, height })
  }
  const { at } = await pictureOf((await convert({ width: 100 })).uri)
  t.same(
    [at(5, 5), at(95, 45)],
    [
      [255, 0, 0],
      [0, 0, 255],
    ],
  )
})

t.test('and another format', async (t) => {
  for (const format of ['jpeg', 'png', 'webp', 'avif', 'gif', 'tiff'] as const) {
    const made = await convert({ format, width: 64, quality: 60 })
    t.match(made, { format, width: 64, sizeBytes: files.get(String(made.uri))!.length }, format)
    const { at } = await pictureOf(made.uri)
    t.ok(at(2, 2)[0]! > 200 && at(60, 2)[2]! > 200, `${format} shows the same`)
  }
  const bare = await convert({}, { file: 'busbar:///files/camera' })
  t.match(bare, { format: 'jpeg' }, 'it stays what it is')
  t.equal((await sharp(files.get(String(bare.uri))!).metadata()).exif, undefined, 'nothing of who has taken it')
})

t.test('what is no picture is refused, and a cancelled task leaves no process', async (t) => {
  files.set('busbar:///files/text', Buffer.from('no picture'))
  const large = '<svg xmlns="http://www.w3.org/2000/svg" width="20000" height="20000"/>'
  files.set('busbar:///files/large', Buffer.from(large))
  await t.rejects(convert({}, { file: 'busbar:///files/text' }), failure('refused', /no picture/))
  await t.rejects(convert({}, { file: 'busbar:///files/large' }), failure('refused', /pixel limit/))
  await t.rejects(convert({}, { file: undefined, text: 'x' }), failure('refused', /properties\.file is needed/))
  await t.rejects(convert({ width: 0 }), /properties\.image\.width/)
  files.set('busbar:///files/slow', await halves(6_000, 6_000, 'png'))
  const stopping = new AbortController()
  const before = childrenOf(process.pid)
  const running = convert({ format: 'avif' }, { file: 'busbar:///files/slow' }, { signal: stopping.signal })
  while (childrenOf(process.pid).length === before.length) await new Promise((resolve) => setTimeout(resolve, 5))
  stopping.abort(new Error('cancelled'))
  await t.rejects(running, /cancelled/)
  while (childrenOf(process.pid).length > before.length) await new Promise((resolve) => setTimeout(resolve, 5))
})
