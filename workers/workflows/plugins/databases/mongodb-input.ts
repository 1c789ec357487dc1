import { type Static, Type } from 'typebox'
import { accountProperties, TlsSettings } from '../server-properties.ts'

const titles = {
  find: 'Documents that fit',
  count: 'How many documents fit',
  aggregate: 'What a pipeline makes of the documents',
  insert: 'Inserts documents',
  update: 'Changes documents',
  replace: 'Puts a document in the place of another',
  delete: 'Deletes documents',
} as const
const names = Object.keys(titles) as (keyof typeof titles)[]

const Document = (description: string, example: unknown) =>
  Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description, examples: [example] }))

export const MongoInput = Type.Object(
  {
    url: Type.String({
      description: 'Where the database is; of a replica set any of its members, `mongodb+srv://` looks them up',
      examples: ['mongodb://app@localhost:27017/shop?authSource=admin'],
    }),
    ...accountProperties,
    tls: Type.Optional(TlsSettings),
    database: Type.Optional(
      Type.String({ description: 'The database; default: the one in `url`', examples: ['shop'] }),
    ),
    collection: Type.String({ description: 'The collection', minLength: 1, examples: ['orders'] }),
    operation: Type.Union(
      names.map((name) => Type.Literal(name, { description: titles[name] })),
      { description: 'What to do', examples: ['find'] },
    ),
    filter: Type.Record(Type.String(), Type.Unknown(), {
      description: 'Which documents; values that JSON lacks as in Extended JSON: `{"$oid": "…"}`, `{"$date": "…"}`',
      default: {},
      examples: [{ status: 'open' }],
    }),
    projection: Document('Fields that are given: find', { total: 1 }),
    sort: Document('Order: find', { total: -1 }),
    skip: Type.Integer({ description: 'How many are left out: find', default: 0, minimum: 0, examples: [100] }),
    limit: Type.Integer({ description: 'How many are given, 0 for all: find', default: 0, minimum: 0, examples: [10] }),
    documents: Type.Optional(
      Type.Array(Type.Record(Type.String(), Type.Unknown()), {
        description: 'What is inserted; without an `_id` a document gets one that is the same when the task runs again',
        minItems: 1,
        maxItems: 100_000,
        examples: [[{ item: 'apple', total: 3 }]],
      }),
    ),
    update: Type.Optional(
      Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Array(Type.Unknown())], {
        description: 'What is changed, with operators, or a pipeline: update',
        examples: [{ $set: { status: 'done' } }],
      }),
    ),
    replacement: Document('What takes the place of the document: replace', { item: 'pear' }),
    many: Type.Boolean({
      description: 'All that fit and not only one: update, delete',
      default: false,
      examples: [true],
    }),
    upsert: Type.Boolean({ description: 'Inserts when none fits: update, replace', default: false, examples: [true] }),
    pipeline: Type.Optional(
      Type.Array(Type.Record(Type.String(), Type.Unknown()), {
        description: 'Stages: aggregate',
        examples: [[{ $group: { _id: '$status', n: { $sum: 1 } } }]],
      }),
    ),
    maxDocuments: Type.Integer({
      description: 'More documents than this fail the task',
      default: 10_000,
      minimum: 0,
      maximum: 1_000_000,
      examples: [100],
    }),
    maxBytes: Type.Integer({
      description: 'More bytes of documents than this, as JSON, fail the task',
      default: 16_777_216,
      minimum: 1,
      maximum: 67_108_864,
      examples: [1_048_576],
    }),
    timeoutMs: Type.Integer({
      description: 'Longest run of the operation, milliseconds',
      default: 60_000,
      minimum: 1,
      examples: [5_000],
    }),
  },
  { additionalProperties: false },
)
export type MongoInput = Static<typeof MongoInput>
