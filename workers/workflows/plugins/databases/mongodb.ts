import { Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { needProperties } from '../server-properties.ts'
import { closeMongo, endOnServer, openMongo } from './mongodb-connect.ts'
import { mongoFailure } from './mongodb-failure.ts'
import { MongoInput } from './mongodb-input.ts'
import { type MongoOperation, mongoOperations } from './mongodb-operations.ts'

/** Source: https://www.mongodb.com/docs/manual/reference/command/ */
export const mongodb = definePlugin({
  id: 'db.mongodb',
  name: 'MongoDB',
  category: 'Databases',
  description:
    'Finds, counts, aggregates, inserts, changes and deletes documents of a MongoDB. Object ids, dates and exact numbers ' +
    'come as texts, bytes in base64.',
  needs: 'A MongoDB 4.2 or newer. Tested at the level of its wire protocol, with a server of the test',
  input: MongoInput,
  output: Type.Object({
    documents: Type.Array(Type.Unknown(), { description: 'What was found', examples: [[{ item: 'apple' }]] }),
    count: Type.Integer({
      description: 'How many were found, counted, inserted, changed or deleted',
      examples: [1],
    }),
    result: Type.Record(Type.String(), Type.Unknown(), {
      description: 'What else the server says: ids that were inserted, how many fitted',
      examples: [{ matchedCount: 1, modifiedCount: 1, upsertedId: null }],
    }),
  }),
  example: `name: open-orders
tasks:
  - name: find
    type: db.mongodb
    properties:
      url: mongodb://localhost:27017/shop
      collection: orders
      operation: find
      filter: { status: open }
      sort: { total: -1 }
      limit: 10
`,
  async run(given: TaskRun<MongoInput>) {
    const { input, signal } = given
    const operation: MongoOperation = mongoOperations[input.operation]
    needProperties(input, operation.needs)
    const session = await openMongo(given)
    try {
      return await unlessAborted(operation.run(session, given), given)
    } catch (error) {
      if (signal.aborted) await endOnServer(given, session)
      signal.throwIfAborted()
      throw mongoFailure(error)
    } finally {
      await closeMongo(session)
    }
  },
})

/** The driver's own cursor and session would wait for the answer that is no longer wanted. */
async function unlessAborted<T>(work: Promise<T>, { signal, input }: TaskRun<MongoInput>) {
  const ended = Promise.withResolvers<never>()
  const stop = () => ended.reject(signal.reason)
  // The server has the same limit, and a moment longer here for its answer to arrive.
  const late = () => ended.reject(new TaskFailure('timeout', `The operation is not done after ${input.timeoutMs} ms`))
  const timer = setTimeout(late, input.timeoutMs + 500)
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, ended.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    work.catch(() => undefined)
  }
}
