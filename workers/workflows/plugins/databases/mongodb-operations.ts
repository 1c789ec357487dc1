import { createHash } from 'node:crypto'
import type { Collection, Document, MongoBulkWriteError } from 'mongodb'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import type { MongoSession } from './mongodb-connect.ts'
import type { MongoInput } from './mongodb-input.ts'
import { RowBudget } from './row-budget.ts'

type Bson = typeof import('mongodb')['BSON']

interface MongoResult {
  readonly documents: unknown[]
  readonly count: number
  readonly result: Record<string, unknown>
}

interface Work {
  readonly input: MongoInput
  readonly collection: Collection
  readonly bson: Bson
  /** Session and time limit of each operation. */
  readonly options: { readonly session: MongoSession['session']; readonly maxTimeMS: number }
  readonly key: string
}

export interface MongoOperation {
  readonly needs: readonly string[]
  readonly run: (session: MongoSession, given: TaskRun<MongoInput>) => Promise<MongoResult>
}

const operation = (needs: readonly string[], run: (work: Work) => Promise<MongoResult>): MongoOperation => ({
  needs,
  async run({ client, session, database }, { input, idempotencyKey }) {
    const { BSON } = await import('mongodb')
    const collection = client.db(database).collection(input.collection)
    return await run({
      input,
      collection,
      bson: BSON,
      options: { session, maxTimeMS: input.timeoutMs },
      key: idempotencyKey,
    })
  },
})

export const mongoOperations: Readonly<Record<MongoInput['operation'], MongoOperation>> = {
  find: operation([], async (work) => {
    const { input, collection, options, bson } = work
    const { projection, sort, skip, limit } = input
    return await collect(
      collection.find(decode(bson, input.filter), {
        ...options,
        ...(projection !== undefined && { projection }),
        ...(sort !== undefined && { sort: Object.entries(sort) as never }),
        skip,
        limit,
      }),
      work,
    )
  }),
  count: operation([], async ({ input, collection, options, bson }) => ({
    documents: [],
    count: await collection.countDocuments(decode(bson, input.filter), options),
    result: {},
  })),
  aggregate: operation(['pipeline'], async (work) => {
    const { input, collection, options, bson } = work
    return await collect(
      collection.aggregate(
        input.pipeline!.map((stage) => decode(bson, stage)),
        options,
      ),
      work,
    )
  }),
  insert: operation(['documents'], insert),
  update: operation(['update'], async ({ input, collection, options, bson }) => {
    const change = (
      Array.isArray(input.update) ? input.update.map((each) => decode(bson, each)) : decode(bson, input.update)
    ) as Document
    const settings = { ...options, upsert: input.upsert }
    const filter = decode(bson, input.filter)
    const told = input.many
      ? await collection.updateMany(filter, change, settings)
      : await collection.updateOne(filter, change, settings)
    return changed(bson, told)
  }),
  replace: operation(['replacement'], async ({ input, collection, options, bson }) =>
    changed(
      bson,
      await collection.replaceOne(decode(bson, input.filter), decode(bson, input.replacement), {
        ...options,
        upsert: input.upsert,
      }),
    ),
  ),
  delete: operation([], async ({ input, collection, options, bson }) => {
    const filter = decode(bson, input.filter)
    const { deletedCount } = input.many
      ? await collection.deleteMany(filter, options)
      : await collection.deleteOne(filter, options)
    return { documents: [], count: deletedCount, result: { deletedCount } }
  }),
}

async function collect(
  cursor: AsyncIterable<Document> & { close(): Promise<void> },
  { input, bson }: Work,
): Promise<MongoResult> {
  const budget = new RowBudget({ maxRows: input.maxDocuments, maxBytes: input.maxBytes })
  const documents: unknown[] = []
  try {
    for await (const document of cursor) {
      const plain = encode(bson, document)
      budget.take(plain)
      documents.push(plain)
    }
  } finally {
    await cursor.close()
  }
  return { documents, count: documents.length, result: {} }
}

const duplicate = 11_000

/** A document without an id gets one made of the task's key: what an earlier attempt has inserted is inserted. */
async function insert({ input, collection, options, bson, key }: Work): Promise<MongoResult> {
  const ours = new Set<number>()
  const documents = input.documents!.map((each, index) => {
    const document = decode(bson, each)
    if (document._id !== undefined) return document
    ours.add(index)
    const id = createHash('sha256').update(`${key}/${index}`).digest('hex').slice(0, 24)
    return { _id: new bson.ObjectId(id), ...document }
  })
  const insertedIds = documents.map(({ _id }) => encode(bson, _id))
  try {
    await collection.insertMany(documents, { ...options, ordered: false })
  } catch (error) {
    const { writeErrors } = error as MongoBulkWriteError
    const failed = writeErrors === undefined ? [] : [writeErrors].flat()
    if (failed.length === 0 || failed.some(({ code, index }) => code !== duplicate || !ours.has(index))) throw error
  }
  return { documents: [], count: documents.length, result: { insertedIds } }
}

function changed(bson: Bson, told: Document): MongoResult {
  const { matchedCount, modifiedCount, upsertedCount, upsertedId } = told
  return {
    documents: [],
    count: modifiedCount + upsertedCount,
    result: { matchedCount, modifiedCount, upsertedId: encode(bson, upsertedId ?? null) },
  }
}

/** Extended JSON to what the server stores. @throws {TaskFailure} `refused` for what is none */
function decode(bson: Bson, json: unknown): Document {
  try {
    return bson.EJSON.deserialize(json as Document)
  } catch (cause) {
    throw new TaskFailure('refused', `This is no Extended JSON: ${(cause as Error).message}`, cause)
  }
}

/** To plain JSON: exact numbers, ids and dates as texts, bytes in base64. */
function encode(bson: Bson, value: unknown): unknown {
  if (value === null || typeof value !== 'object') return typeof value === 'bigint' ? String(value) : value
  if (Array.isArray(value)) return value.map((each) => encode(bson, each))
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (value instanceof bson.Binary) return value.toString('base64')
  const { _bsontype: kind } = value as { _bsontype?: string }
  if (kind === 'ObjectId' || kind === 'Decimal128' || kind === 'Long') return String(value)
  if (kind !== undefined) return bson.EJSON.serialize(value as Document)
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, encode(bson, each)]))
}
