import type { DirectBatchOptions, StoredMsg } from '@nats-io/jetstream'
import type { Bus } from './connect.ts'

/** The next messages of a stream or subject, none at its end. Not for more than 1,000. */
export async function readPage(bus: Bus, stream: string, query: DirectBatchOptions): Promise<StoredMsg[]> {
  const page: StoredMsg[] = []
  try {
    for await (const stored of await bus.manager.direct.getBatch(stream, query)) page.push(stored)
  } catch (error) {
    if (!isNothingFound(error)) throw error
  }
  return page
}

/** What a read of several messages says when there is none. */
export function isNothingFound(error: unknown): boolean {
  // The client does not export the class.
  return error instanceof Error && error.name === 'JetStreamStatusError' && 'code' in error && error.code === 404
}
