import type { Bus } from '../bus/connect.ts'
import { type DeadLetter, DeadLetterRefused, dropDead, listDead, readDead, retryDead } from '../bus/dead.ts'
import type { Config } from '../schemas/config.ts'
import { openBus } from './bus.ts'
import { OperatorError } from './local/operator-error.ts'
import { createLog } from './log.ts'

export interface DeadListing {
  readonly consumer?: string
  /** The first sequence. */
  readonly from: number
  readonly limit: number
}

/** Runs work on the bus. @throws {OperatorError} when that is away, or a letter cannot be treated so. */
export async function onBus<T>(config: Config, work: (bus: Bus) => Promise<T>): Promise<T> {
  const bus = await openBus(config, createLog('error'), 'dead', 'all')
  try {
    return await work(bus)
  } catch (error) {
    throw error instanceof DeadLetterRefused ? new OperatorError(`${error.message}.`, { cause: error }) : error
  } finally {
    await bus.close()
  }
}

/** A line a letter, oldest first. */
export async function listedDead(bus: Bus, listing: DeadListing): Promise<string> {
  const letters = await listDead(bus, listing)
  if (letters.length === 0) return 'Nothing was given up on.\n'
  const lines = letters.map(({ sequence, diedAt, consumer, subject, deliveryCount, error }) => {
    const tries = deliveryCount === 1 ? 'at once' : `after ${deliveryCount} deliveries`
    return `${sequence} ${new Date(diedAt).toISOString()} ${consumer} ${subject} ${tries}: ${error}\n`
  })
  const more = letters.length === listing.limit ? `More: --from ${letters.at(-1)!.sequence + 1}\n` : ''
  return lines.join('') + more
}

/** The same as JSON, without the bodies. */
export async function listedDeadJson(bus: Bus, listing: DeadListing): Promise<string> {
  const letters = await listDead(bus, listing)
  return asJson(letters.map(({ body, ...told }) => ({ ...told, sizeBytes: body.length })))
}

/** All there is of one letter, as JSON. */
export async function shownDead(bus: Bus, sequence: number): Promise<string> {
  const { body, ...told } = await readDead(bus, sequence)
  return asJson({ ...told, ...bodyOf(body) })
}

/** One after the other; the first that cannot be treated so ends it. */
export async function treatDead(bus: Bus, verb: 'retry' | 'drop', sequences: readonly number[]): Promise<string> {
  for (const sequence of sequences) await (verb === 'retry' ? retryDead : dropDead)(bus, sequence)
  return `${sequences.length} ${verb === 'retry' ? 'put back' : 'dropped'}.\n`
}

function bodyOf(body: DeadLetter['body']) {
  const bytes = Buffer.from(body)
  const text = bytes.toString('utf8')
  return Buffer.from(text, 'utf8').equals(bytes) ? { body: text } : { bodyBase64: bytes.toString('base64') }
}

function asJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
