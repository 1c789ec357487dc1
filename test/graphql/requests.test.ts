import { hash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildSchema } from 'graphql'
import t from 'tap'
import { Documents, defaultDocumentLimits } from '../../gateways/graphql/document.ts'
import { defaultPersisted, PersistedQueries } from '../../gateways/graphql/persisted.ts'
import { PersistedDocumentsFault, readPersistedDocuments } from '../../gateways/graphql/persisted-files.ts'
import { shownCatalog } from '../../ops/catalog.ts'
import { findRole } from '../../ops/roles.ts'
import { loadConfig } from '../../schemas/config/load.ts'

const digest = (text: string) => hash('sha256', text, 'hex')

t.test('persisted documents come from a map, or from a folder of maps and documents', async (t) => {
  const folder = t.testdir({
    'relay.json': JSON.stringify({ a1: '{ a }', b2: '{ b }' }),
    'FilmList.graphql': 'query FilmList { films }\n',
    'other.gql': '{ other }',
    'notes.md': 'no document',
  })
  const both = readPersistedDocuments(folder)
  t.same(both.get('a1'), '{ a }')
  t.same(both.get('FilmList'), 'query FilmList { films }\n')
  t.same(both.get('other'), '{ other }')
  t.same(both.get(digest('{ b }')), '{ b }', 'each by its hash besides')
  t.equal(both.size, 8)
  t.same([...readPersistedDocuments(join(folder, 'relay.json')).keys()].slice(0, 2), ['a1', 'b2'])
})

t.test('persisted documents that cannot be used stop the start with one line that names the file', async (t) => {
  const folder = t.testdir({
    'text.json': 'x',
    'list.json': '["{ a }"]',
    'number.json': '{"a": 7}',
    'broken.json': '{"a": "{ a"}',
    'empty.json': '{}',
    'bad.graphql': 'query {',
  })
  mkdirSync(join(folder, 'none'))
  mkdirSync(join(folder, 'twice'))
  writeFileSync(join(folder, 'twice/a.json'), '{"x": "{ a }"}')
  writeFileSync(join(folder, 'twice/x.graphql'), '{ b }')
  const refusals: readonly (readonly [string, RegExp])[] = [
    ['missing.json', /missing\.json: it cannot be read \(ENOENT\)$/],
    ['text.json', /text\.json: it is not JSON$/],
    ['list.json', /list\.json: it is not an object of documents$/],
    ['number.json', /number\.json: "a" is not the text of a document$/],
    ['broken.json', /broken\.json: the document "a" cannot be parsed: Syntax Error: [^\n]+$/],
    ['empty.json', /empty\.json: it holds no documents$/],
    ['bad.graphql', /bad\.graphql: the document "bad" cannot be parsed: [^\n]+$/],
    ['none', /none: it holds no documents$/],
    ['twice', /x\.graphql: the id "x" has another document already$/],
  ]
  const argv = ['--spring.datasource.url=postgresql://127.0.0.1:1/none']
  const start = (more: string[]) => {
    const { values: config } = loadConfig({ argv: [...argv, ...more] })
    return findRole('gateway:graphql').start({ config, log: {} as never, signal: new AbortController().signal })
  }
  for (const [name, message] of refusals) {
    const path = join(folder, name)
    t.throws(() => readPersistedDocuments(path), { constructor: PersistedDocumentsFault, message })
    const refused = start([`--app.graphql.persisted-documents=${path}`])
    await t.rejects(refused, {
      name: 'OperatorError',
      message: new RegExp(`^app\\.graphql\\.persisted-documents: .*${message.source}`),
    })
  }
  await t.rejects(start(['--app.graphql.persisted-only=true']), {
    name: 'OperatorError',
    message: /^app\.graphql\.persisted-only needs documents/,
  })
})

t.test('what clients register is bounded, the oldest goes', async (t) => {
  const documents = new Documents(buildSchema('type Query { a: Int }'), defaultDocumentLimits)
  const persisted = new PersistedQueries(defaultPersisted)
  const nothing = { query: null, documentId: null }
  const ask = (query: string) => ({ persistedQuery: { version: 1, sha256Hash: digest(query) } })
  const text = (n: number) => `{ a${n}: a }`
  for (let n = 0; n <= 5000; n++) {
    const { errors } = persisted.read({ query: text(n), documentId: null, extensions: ask(text(n)) }, documents)
    if (errors !== null) t.fail(errors[0]?.message ?? '')
  }
  t.match(persisted.read({ ...nothing, extensions: ask(text(0)) }, documents).errors, [
    { extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } },
  ])
  t.equal(persisted.read({ ...nothing, extensions: ask(text(1)) }, documents).errors, null)
  t.equal(persisted.read({ ...nothing, extensions: ask(text(5000)) }, documents).errors, null)
})

t.test('the catalog is a line a table and a line a name that could not stay', async (t) => {
  const film = {
    schema: 'public',
    name: 'film',
    kind: 'table',
    type: 'PublicFilm',
    field: 'publicFilm',
    columns: {},
    relations: {},
  }
  t.equal(
    shownCatalog({ tables: [film], renamed: [] }),
    'TABLE        KIND   TYPE        FIELD\npublic.film  table  PublicFilm  publicFilm\n\nEvery name is as in the database.\n',
  )
  const renamed = { what: 'column', name: 'public.film.a b', as: 'a_b', because: 'not a GraphQL name' } as const
  t.match(
    shownCatalog({ tables: [film], renamed: [renamed] }),
    /\(1\):\nWHAT {4}IN THE DATABASE {2}IN GRAPHQL {2}BECAUSE\ncolumn {2}public\.film\.a b {2}a_b {9}not a GraphQL name\n$/,
  )
})
