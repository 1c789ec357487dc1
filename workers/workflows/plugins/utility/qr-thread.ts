import { crc32, deflateSync } from 'node:zlib'
import { encodeQR } from 'qr'
import { TaskFailure } from '../../plugin.ts'

interface Asked {
  readonly text: string
  readonly format: 'svg' | 'png' | 'text'
  readonly correction: 'low' | 'medium' | 'quartile' | 'high'
  readonly scale: number
}

/** What has to be left blank around a code, in modules. */
const border = 4
const signature = Buffer.from('89504e470d0a1a0a', 'hex')

export function code({ text, format, correction, scale }: Asked): string | Uint8Array {
  try {
    const options = { ecc: correction, border }
    if (format === 'svg') return encodeQR(text, 'svg', options)
    if (format === 'text') return encodeQR(text, 'ascii', options)
    return png(encodeQR(text, 'raw', options), scale)
  } catch (error) {
    throw new TaskFailure('refused', `This cannot be a QR code: ${(error as Error).message}`, error)
  }
}

/** One bit a pixel, 0 is black. Source: https://www.w3.org/TR/png-3/ */
function png(modules: readonly (readonly boolean[])[], scale: number): Uint8Array {
  const side = modules.length * scale
  const lineBytes = 1 + Math.ceil(side / 8)
  const pixels = Buffer.alloc(lineBytes * side)
  for (let y = 0; y < side; y++) {
    const row = modules[Math.floor(y / scale)]!
    for (let x = 0; x < side; x++) {
      const at = y * lineBytes + 1 + (x >> 3)
      if (!row[Math.floor(x / scale)]) pixels[at] = pixels[at]! | (0x80 >> (x & 7))
    }
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(side, 0)
  header.writeUInt32BE(side, 4)
  // Bits a sample; colour type, compression, filter and interlacing are all 0.
  header[8] = 1
  const parts = [signature, chunk('IHDR', header), chunk('IDAT', deflateSync(pixels)), chunk('IEND', Buffer.alloc(0))]
  return new Uint8Array(Buffer.concat(parts))
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const framed = Buffer.alloc(body.length + 8)
  framed.writeUInt32BE(data.length, 0)
  body.copy(framed, 4)
  framed.writeUInt32BE(crc32(body), body.length + 4)
  return framed
}
