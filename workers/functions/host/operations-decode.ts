import { createRequire } from 'node:module'
import { unpack } from '../sandbox/wire.ts'
import { OperationError } from './operations-error.ts'

/** Of one isolate; the one that was not used for longest is given up for another. */
const MAX_STREAMS = 64

type Decoder = Pick<TextDecoder, 'decode' | 'encoding'>
type DecoderOptions = { readonly fatal: boolean; readonly ignoreBOM: boolean }

/** The operation `decode` of one isolate. */
export function decoding(): (argument: string) => string {
  /** The one used last is the last. */
  const streams = new Map<number, Decoder>()
  return (argument) => {
    const { head, rest } = unpack<[string, boolean, boolean, number, boolean, boolean]>(argument)
    const [label, fatal, ignoreBOM, id, stream, goesOn] = head
    const open = streams.get(id)
    if (goesOn && open === undefined)
      throw new OperationError('RangeError', `Of more than ${MAX_STREAMS} decoders with a stream this one was given up`)
    const decoder = open ?? decoderFor(label, { fatal, ignoreBOM })
    streams.delete(id)
    const text = decoded(decoder, rest, stream)
    if (!stream) return text
    if (streams.size >= MAX_STREAMS) streams.delete(streams.keys().next().value!)
    streams.set(id, decoder)
    return text
  }
}

function decoded(decoder: Decoder, bytes: string, stream: boolean): string {
  try {
    return decoder.decode(Buffer.from(bytes, 'latin1'), { stream })
  } catch {
    throw new OperationError('TypeError', 'The encoded data was not valid')
  }
}

/** The canonical name of an encoding, by any of its labels. */
export const encodingName = (label: string): string => decoderFor(label, { fatal: false, ignoreBOM: false }).encoding

/** What Node's decoder does not decode as the standard says: it lacks half of the Korean syllables and the Hong Kong characters, for a start. */
const otherwise: ReadonlySet<string> = new Set(['big5', 'euc-jp', 'euc-kr', 'iso-2022-jp', 'shift_jis'])
const require = createRequire(import.meta.url)

function decoderFor(label: string, options: DecoderOptions): Decoder {
  try {
    const decoder = new TextDecoder(label, options)
    return otherwise.has(decoder.encoding) ? legacyDecoder(decoder.encoding, options) : decoder
  } catch {
    throw new OperationError('RangeError', `No such encoding: ${JSON.stringify(String(label).slice(0, 50))}`)
  }
}

/** Its tables are loaded when they are needed. */
function legacyDecoder(encoding: string, options: DecoderOptions): Decoder {
  const bytes = require('@exodus/bytes/encoding.js') as typeof import('@exodus/bytes/encoding.js')
  return new bytes.TextDecoder(encoding, options)
}
