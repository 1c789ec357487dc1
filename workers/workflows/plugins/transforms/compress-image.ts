import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { bytesOf, givenBack } from '../content.ts'
import { inOwnProcess } from '../own-process.ts'
import type { CompressInput } from './compress-properties.ts'
import type { ImageAnswer, ImageJob } from './image-process.ts'

const module = new URL('./image-process.ts', import.meta.url)
const timeoutMs = 120_000
const maxPixels = 100_000_000

/** A picture in another size or format, without what it says of where and how it was taken. */
export async function pictureOf(task: TaskRun<CompressInput>) {
  const { width, height, fit, format, quality } = task.input.image
  if (task.input.file === undefined)
    throw new TaskFailure('refused', 'properties.file is needed for the operation image')
  const job: ImageJob = {
    bytes: await bytesOf(task, task.input),
    format: format ?? null,
    width: width ?? null,
    height: height ?? null,
    fit,
    quality: quality ?? null,
    maxPixels,
  }
  const answer = await inOwnProcess<ImageAnswer>({ module, name: 'The picture', timeoutMs, signal: task.signal }, job)
  if ('refused' in answer) throw new TaskFailure('refused', `This is no picture that can be made so: ${answer.refused}`)
  const { bytes, ...told } = answer
  return { ...told, sizeBytes: bytes.length, uri: (await givenBack(task, bytes, true)).uri! }
}
