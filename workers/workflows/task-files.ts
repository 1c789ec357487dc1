import type { Bus } from '../../bus/connect.ts'
import { readBytes, storeBytes } from '../../bus/objects.ts'
import { TaskFailure, type TaskFiles } from './plugin.ts'

const fileUri = /^busbar:\/\/\/files\/([A-Za-z0-9_-]{1,128})$/
const maxFileBytes = 64 * 1024 ** 2

/** Files lie in the object store under their digest. */
export function taskFiles(bus: Bus): TaskFiles {
  return {
    async put(given) {
      const bytes = given instanceof Uint8Array ? given : await collected(given)
      return { uri: `busbar:///files/${await storeBytes(bus, bytes)}`, sizeBytes: bytes.length }
    },
    async get(uri) {
      const digest = fileUri.exec(uri)?.[1]
      if (digest === undefined) throw new TaskFailure('refused', 'This is no URI of a file: busbar:///files/<digest>')
      return await readBytes(bus, digest)
    },
  }
}

/** @throws {TaskFailure} when it is larger than a file may be */
export async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let sizeBytes = 0
  for await (const chunk of chunks) {
    sizeBytes += chunk.length
    if (sizeBytes > maxFileBytes) throw new TaskFailure('refused', `The file is larger than ${maxFileBytes} bytes`)
    parts.push(chunk)
  }
  return Buffer.concat(parts)
}
