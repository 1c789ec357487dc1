import { readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import pg from 'pg'
import t from 'tap'
import { Compile } from 'typebox/schema'
import { parse } from 'yaml'
import type { Catalog } from '../../gateways/data/catalog.ts'
import { introspect } from '../../gateways/data/postgres-introspect.ts'
import { buildOpenApi, type OpenApiOptions, openApiYaml } from '../../gateways/rest/openapi.ts'
import { tableDefinition, tableListing } from '../../gateways/rest/openapi-describe.ts'
import { parseList } from '../../gateways/rest/parse-list.ts'
import { dataErrors } from '../../schemas/data/errors.ts'
import { httpErrors } from '../../schemas/http/errors.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const client = new pg.Client(server.url)
await client.connect()
t.teardown(() => client.end())
await client.query(readFileSync(new URL('../support/fixture.sql', import.meta.url), 'utf8'))

/** As much of a document as the tests look at. */
interface Document {
  readonly openapi: string
  readonly servers: readonly { readonly url: string }[]
  readonly security?: unknown
  readonly paths: Readonly<Record<string, PathItem>>
  readonly components: Readonly<Record<string, Readonly<Record<string, Part>>>>
}
type PathItem = Readonly<Record<string, Operation>> & { readonly parameters?: readonly Part[] }
interface Operation {
  readonly operationId: string
  readonly parameters?: readonly Part[]
  readonly responses: Readonly<Record<string, Part>>
}
// biome-ignore lint/suspicious/noExplicitAny: a document is looked at in many places, of many shapes
type Part = any

const base: OpenApiOptions = {
  schema: 'public',
  title: 'Test API',
  version: '1.2.3',
  serverUrl: 'http://127.0.0.1:20000/',
  maxPageSize: 1000,
  defaultPageSize: 100,
  jwt: true,
  changes: true,
}
const catalog = await introspect(client, ['public', 'other'])
const build = (options: Partial<OpenApiOptions> = {}, of: Catalog = catalog) =>
  buildOpenApi(of, { ...base, ...options }) as unknown as Document
const document = build()

function resolve(part: Part): Part {
  if (typeof part?.$ref !== 'string') return part
  const found = part.$ref
    .slice(2)
    .split('/')
    .reduce((value: Part, name: string) => value?.[name], document)
  if (found === undefined) throw new Error(`nothing at ${part.$ref}`)
  return resolve(found)
}

const methods = ['get', 'put', 'post', 'patch', 'delete']
const operationsOf = (of: Document) =>
  Object.entries(of.paths).flatMap(([path, item]) =>
    methods.flatMap((method) => (item[method] ? [{ path, method, item, operation: item[method] }] : [])),
  )
const parametersOf = (operation: Operation): Part[] => (operation.parameters ?? []).map(resolve)
const schemaOf = (name: string): Part => document.components.schemas?.[name]

async function fault(of: Document): Promise<string | null> {
  const { valid, errors } = await new Validator().validate(JSON.parse(JSON.stringify(of)))
  return valid ? null : JSON.stringify(errors)
}

t.test('the document is valid OpenAPI 3.1, for every kind of schema and setting', async (t) => {
  t.equal(document.openapi, '3.1.0')
  t.equal(await fault(document), null)
  t.equal(await fault(build({ jwt: false, changes: false, serverUrl: '' })), null)
  t.equal(await fault(build({ schema: 'other' })), null)
  const empty = build({}, await introspect(client, ['nowhere']))
  t.equal(await fault(empty), null)
  t.same(Object.keys(empty.paths), ['/', '/types/{name}', '/openapi.json', '/openapi.yaml'])
  t.same(document.servers, [{ url: 'http://127.0.0.1:20000/api/v1' }])
  t.same(build({ serverUrl: '' }).servers, [{ url: '/api/v1' }])
})

t.test('YAML says the same as JSON', async (t) => {
  const yaml = openApiYaml(document as unknown as Record<string, unknown>)
  t.same(parse(yaml, { maxAliasCount: 0 }), JSON.parse(JSON.stringify(document)))
  t.notMatch(yaml, /(?:: |- )[&*]a\d/, 'no anchors, which few tools read')
})

t.test('every route of the specification is there', async (t) => {
  const has = (path: string, ...expected: string[]) =>
    t.same(methods.filter((method) => document.paths[path]?.[method]).toSorted(), expected.toSorted(), path)
  has('/', 'get')
  has('/types/{name}', 'get')
  has('/openapi.json', 'get')
  has('/openapi.yaml', 'get')
  has('/orders', 'get', 'post', 'patch', 'delete')
  has('/orders/{id}', 'get', 'put', 'patch', 'delete')
  has('/orders/changes', 'get')
  has('/orders/schema', 'get')
  has('/order_item/{order_id},{line}', 'get', 'put', 'patch', 'delete')
  has('/open_orders', 'get', 'post', 'patch', 'delete')
  has('/customer_totals', 'get')
  has('/sales', 'get')
  has('/empty_table', 'get', 'delete')
  has('/rpc/add', 'get', 'post')
  has('/rpc/bump', 'post')
  t.notOk(document.paths['/keyless/{name}'])
  t.notOk(document.paths['/open_orders/changes'], 'views have no changes of their own')
  t.notOk(document.paths['/warehouse'], 'the other schema is not exposed')
  t.notOk(build({ changes: false }).paths['/orders/changes'])
})

t.test('odd names: paths are escaped, components and path parameters legal, operations unique', async (t) => {
  for (const path of [
    '/Odd%20Table/{Id}',
    '/a%2Fb%3Fc%23d%2520/{id}',
    '/na%C3%AFve%20%F0%9F%98%80/{id}',
    '/quo%22ted/{id}',
  ]) {
    t.ok(document.paths[path], path)
  }
  for (const [section, components] of Object.entries(document.components)) {
    for (const name of Object.keys(components)) t.match(name, /^[A-Za-z0-9._-]+$/, section)
  }
  const operations = operationsOf(document)
  const ids = operations.map(({ operation }) => operation.operationId)
  t.equal(new Set(ids).size, ids.length)
  for (const id of ids) t.match(id, /^[A-Za-z0-9._-]+$/)
  for (const { path, item } of operations) {
    const wanted = [...path.matchAll(/\{([^}]+)\}/g)].map((match) => match[1])
    t.same(
      (item.parameters ?? []).map(({ name }: Part) => name),
      wanted,
      path,
    )
  }
  for (const { path, method, operation } of operations) {
    const names = parametersOf(operation).map(({ name, in: place }) => `${place} ${name}`)
    t.equal(new Set(names).size, names.length, `${method} ${path} names no parameter twice`)
  }
})

t.test('names that would meet get numbers, and plain names stay plain', async (t) => {
  await client.query(`create schema clash; create table clash."Error" (id int); create table clash."a b" (id int);
    create table clash."a_b" (id int, "a b" int, "a_b" int, primary key ("a b", "a_b")); create table clash."aInput" (id int);
    create table clash.a (id int); create type clash.a_b_2 as enum ('x'); create table clash.typed (x clash.a_b_2)`)
  const clash = build({ schema: 'clash' }, await introspect(client, ['clash']))
  t.equal(await fault(clash), null)
  const schemas = Object.keys(clash.components.schemas ?? {})
  for (const name of ['Error', 'Error_2', 'a_b', 'a_b_2', 'a_b_2_2', 'aInput', 'aInput_2'])
    t.ok(schemas.includes(name), name)
  t.same(clash.components.schemas?.a_b.required, ['id', 'a b', 'a_b'])
  t.ok(clash.paths['/a_b/{a_b},{a_b_2}'])
  await client.query('drop schema clash cascade')
})

t.test('lists have every parameter, and a filter for every column that can be one', async (t) => {
  const parameters = parametersOf(document.paths['/orders']!.get!)
  const names = parameters.map(({ name }) => name)
  for (const name of [
    ...[
      'id',
      'customer_id',
      'status',
      'total',
      'placed_at',
      'note',
      'or',
      'and',
      'select',
      'orderBy',
      'orderDirection',
    ],
    ...['order', 'limit', 'offset', 'first', 'after', 'last', 'before', 'expand', 'having', 'Prefer', 'If-None-Match'],
  ]) {
    t.ok(names.includes(name), name)
  }
  t.match(parameters.find(({ name }) => name === 'limit').schema, { maximum: 1000, default: 100 })
  t.match(parameters.find(({ name }) => name === 'note').description, /\bilike\b/)
  t.notMatch(parameters.find(({ name }) => name === 'total').description, /\bilike\b/)
  t.match(parameters.find(({ name }) => name === 'expand').description, /- `customers`: one of `customers`/)
  const odd = parametersOf(document.paths['/Odd%20Table']!.get!)
  t.equal(odd.filter(({ name }) => name === 'limit').length, 1)
  t.match(odd.find(({ name }) => name === 'and').description, /`select`, `limit`, `or`, `and`/)
  t.ok(odd.some(({ name }) => name === 'with.dot'))
})

t.test('every example of a list is a request the API reads', async (t) => {
  let read = 0
  for (const table of catalog.tables.values()) {
    const operation = document.paths[`/${encodeURIComponent(table.name)}`]?.get
    if (table.schema !== 'public' || !operation) continue
    for (const { name, in: place, schema } of parametersOf(operation)) {
      const example = schema.examples?.[0]
      if (place !== 'query' || example === undefined) continue
      t.doesNotThrow(() => parseList(catalog, table, [[name, String(example)]]), `${table.name}?${name}=${example}`)
      read += 1
    }
  }
  t.ok(read > 400, `${read} examples`)
})

t.test('rows of every table are as their schema says', async (t) => {
  // Documented as texts in a column of numbers or times, because hardly any column has them.
  const special = /"(?:NaN|-?[Ii]nfinity)"|BC"/
  for (const table of catalog.tables.values()) {
    if (table.schema !== 'public' || table.name === 'openapi.json') continue
    const operation = document.paths[`/${encodeURIComponent(table.name)}`]!.get!
    const list = resolve(operation.responses['200']).content['application/json'].schema
    const [reference] = list.properties.data.items.anyOf
    const validator = Compile({ ...reference, components: document.components })
    const { rows } = await client.query(
      `select row_to_json(t)::text as row from "${table.name.replaceAll('"', '""')}" t`,
    )
    for (const { row } of rows) {
      if (special.test(row)) continue
      const [correct, errors] = validator.Errors(JSON.parse(row))
      if (!correct) t.fail(`${table.name}: ${JSON.stringify(errors)} in ${row}`)
    }
    for (const column of table.columns) {
      const wrong = { ...JSON.parse(rows[0]?.row ?? '{}'), [column.name]: { wrong: [true] } }
      const open = ['json', 'jsonb'].includes(column.type.base.name) || column.type.base.kind === 'composite'
      if (!open && validator.Check(wrong)) t.fail(`${table.name}.${column.name} admits anything`)
    }
    t.pass(`${table.name}: ${rows.length} rows`)
  }
})

t.test('types: nullability, enums, lengths, references, what the database fills', async (t) => {
  const { properties } = schemaOf('customers')
  t.same(properties.name.type, 'string')
  t.same(properties.joined.type, ['string', 'null'])
  t.same(properties.mood.anyOf, [{ $ref: '#/components/schemas/mood' }, { type: 'null' }])
  t.same(schemaOf('mood').enum, ['sad', 'ok', 'happy', 'in "love"', 'so, so'])
  t.match(properties.credit.description, /What they may owe/)
  t.match(schemaOf('orders').properties.customer_id.description, /Refers to `customers.id`/)
  t.equal(schemaOf('orders').properties.status.maxLength, 20)
  t.same(schemaOf('everything').properties.a_bigint, {
    type: ['integer', 'null'],
    format: 'int64',
    description: '`bigint`.',
    examples: [1],
  })
  t.equal(schemaOf('counters').properties.doubled.readOnly, true)
  t.equal(schemaOf('counters').properties.always_id.readOnly, true)
  t.equal(schemaOf('counters').properties.default_id.readOnly, undefined)
  t.same(Object.keys(schemaOf('countersInput').properties), [
    'default_id',
    'old_serial',
    'base',
    'stamp',
    'word',
    'code',
  ])
  t.notOk(schemaOf('customer_totalsInput'))
  t.equal(schemaOf('country').description, 'Countries by ISO 3166 code\n\nShort and simple.')
})

t.test('bodies: an insert needs what has no default, a change needs nothing', async (t) => {
  const bodyOf = (path: string, method: string): Part =>
    resolve((document.paths[path]![method] as Part).requestBody).content['application/json'].schema
  const [one, many] = bodyOf('/orders', 'post').oneOf
  t.same(one.allOf[1], { required: ['customer_id'] })
  t.equal(many.type, 'array')
  t.same(bodyOf('/orders/{id}', 'patch'), { $ref: '#/components/schemas/ordersInput' })
  t.same(
    bodyOf('/order_item/{order_id},{line}', 'put').allOf[1],
    { required: ['tenant', 'sku'] },
    'the key is in the path',
  )
})

t.test('every request body example fits its schema', async (t) => {
  for (const { path, method, operation } of operationsOf(document)) {
    const body = resolve((operation as Part).requestBody)?.content['application/json']
    if (!body) continue
    const examples = body.examples
      ? Object.values(body.examples as Part).map((one: Part) => resolve(one).value)
      : [body.example]
    const validator = Compile({ ...body.schema, components: document.components })
    for (const example of examples) {
      const [correct, errors] = validator.Errors(example)
      t.ok(correct, `${method} ${path}`, { errors, example })
    }
  }
})

t.test('errors: one shape with every code of the registry', async (t) => {
  t.same(schemaOf('Error').properties.code.enum, [...Object.keys(httpErrors), ...Object.keys(dataErrors)])
  t.same(schemaOf('Error').required, ['error', 'code', 'details', 'hint', 'requestId'])
  const statuses = (path: string, method: string) => Object.keys(document.paths[path]![method]!.responses)
  t.same(statuses('/orders/{id}', 'patch'), '200 204 400 401 403 404 406 409 412 413 415 422 503'.split(' '))
  const registered = new Set(Object.values({ ...httpErrors, ...dataErrors }).map(({ status }) => String(status)))
  for (const { operation } of operationsOf(document)) {
    for (const status of Object.keys(operation.responses)) t.ok(status < '400' || registered.has(status))
  }
  t.notOk(build({ jwt: false }).paths['/orders']!.get!.responses['401'])
})

t.test('change streams: filters, the options, and the event', async (t) => {
  const watch = document.paths['/orders/changes']!.get!
  const names = parametersOf(watch).map(({ name }) => name)
  for (const name of ['status', 'types', 'from', 'resume', 'snapshot', 'Last-Event-ID'])
    t.ok(names.includes(name), name)
  const stream = resolve(watch.responses['200']).content['text/event-stream']
  const data = JSON.parse(/^data: (.*)$/m.exec(stream.example)![1]!)
  const validator = Compile({ $ref: '#/components/schemas/ChangeEvent', components: document.components })
  t.same(validator.Errors(data)[1], [])
})

t.test('functions: arguments by name, overloads, sets, rows and nothing', async (t) => {
  const call = (name: string): Part => document.paths[`/rpc/${encodeURIComponent(name)}`]!.post
  const bodyOf = (name: string): Part => call(name).requestBody.content['application/json'].schema
  const resultOf = (name: string): Part => call(name).responses['200']?.content['application/json'].schema
  t.same(bodyOf('add').required, ['a'])
  t.match(call('add').description, /Adds two numbers/)
  t.same(
    parametersOf(document.paths['/rpc/add']!.get!)
      .map(({ name, required }) => [name, required])
      .slice(0, 2),
    [
      ['a', true],
      ['b', false],
    ],
  )
  t.equal(bodyOf('overloaded').anyOf.length, 3)
  t.same(resultOf('customers_in').items.anyOf[0], { $ref: '#/components/schemas/customers' })
  t.same(Object.keys(resultOf('order_report').items.properties), ['status', 'orders', 'total'])
  t.same(Object.keys(resultOf('split_name').properties), ['first', 'last'])
  t.same(Object.keys(call('forget').responses).slice(0, 1), ['204'])
  t.notOk(document.paths['/rpc/echo_json']!.get, 'an argument without a name can only be a body')
  t.ok(document.paths['/rpc/Odd%20Function'])
  t.equal(call('moods_of').requestBody.required, false)
})

t.test('what describes tables fits its own schema', async (t) => {
  const definition = Compile({ $ref: '#/components/schemas/TableDefinition', components: document.components })
  for (const table of catalog.tables.values()) t.same(definition.Errors(tableDefinition(table))[1], [], table.name)
  const { tables } = tableListing(catalog, 'public') as { readonly tables: readonly string[] }
  t.ok(tables.includes('orders') && tables.includes('Odd Table') && !tables.includes('warehouse'))
})
