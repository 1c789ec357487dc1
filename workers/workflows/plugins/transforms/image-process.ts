import sharp from 'sharp'

// A process of its own: pictures are decoded by native code, which takes time and memory as it likes.

export const imageFormats = ['jpeg', 'png', 'webp', 'avif', 'gif', 'tiff'] as const

export interface ImageJob {
  readonly bytes: Uint8Array
  readonly format: (typeof imageFormats)[number] | null
  readonly width: number | null
  readonly height: number | null
  readonly fit: 'inside' | 'cover' | 'contain' | 'fill'
  readonly quality: number | null
  readonly maxPixels: number
}

export type ImageAnswer =
  | { readonly bytes: Uint8Array; readonly format: string; readonly width: number; readonly height: number }
  | { readonly refused: string }

async function convert({ bytes, format, width, height, fit, quality, maxPixels }: ImageJob): Promise<ImageAnswer> {
  try {
    // What a camera has turned is turned, since what says so is left out.
    const picture = sharp(bytes, { limitInputPixels: maxPixels, failOn: 'error' }).autoOrient()
    const given = (await picture.metadata()).format
    const target = format ?? imageFormats.find((each) => each === given) ?? 'png'
    const size = { ...(width !== null && { width }), ...(height !== null && { height }) }
    if (width !== null || height !== null) picture.resize({ ...size, fit, withoutEnlargement: fit === 'inside' })
    picture.toFormat(target, { ...(quality !== null && { quality }) })
    const { data, info } = await picture.toBuffer({ resolveWithObject: true })
    return {
      bytes: data,
      format: info.format === 'heif' ? 'avif' : info.format,
      width: info.width,
      height: info.height,
    }
  } catch (error) {
    return { refused: (error as Error).message.slice(0, 500) }
  }
}

process.once('message', async (job) => process.send?.(await convert(job as ImageJob)))
