import fc from 'fast-check'
import t from 'tap'
import { failure, files } from './call-plugin.ts'
import { pluginsOf, type Right, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('transform')
const runs = { numRuns: 40 }

const right: Right = [
  // RFC 4180, section 2, rules 1 to 7.
  [
    'csv',
    { text: 'a,b\r\naaa,bbb\r\nzzz,yyy\r\n' },
    {
      rows: [
        { a: 'aaa', b: 'bbb' },
        { a: 'zzz', b: 'yyy' },
      ],
      count: 2,
    },
  ],
  ['csv', { text: 'a,b\r\naaa,bbb' }, { rows: [{ a: 'aaa', b: 'bbb' }], columns: ['a', 'b'] }],
  [
    'csv',
    { text: 'aaa,bbb\nzzz,', header: false },
    {
      rows: [
        ['aaa', 'bbb'],
        ['zzz', ''],
      ],
      columns: [],
    },
  ],
  ['csv', { text: 'a\n"b \r\nbb"\n', types: 'text' }, { rows: [{ a: 'b \r\nbb' }] }],
  ['csv', { text: 'a,b\n"b ""bb, b",c\n' }, { rows: [{ a: 'b "bb, b', b: 'c' }] }],
  ['csv', { text: 'a, b\n x , y \n' }, { rows: [{ a: ' x ', ' b': ' y ' }] }],
  ['csv', { text: 'a, b\n x , y \n', trim: true }, { rows: [{ a: 'x', b: 'y' }] }],
  ['csv', { text: '\ufeffa\n1\n' }, { rows: [{ a: '1' }] }],
  ['csv', { text: '# no\na\n1\n', comment: '#' }, { rows: [{ a: '1' }] }],
  ['csv', { text: 'a;"b;,"\n1;2\n', delimiter: 'auto' }, { rows: [{ a: '1', 'b;,': '2' }] }],
  ['csv', { text: "a\n'x\\'y'\n", quote: "'", escape: '\\' }, { rows: [{ a: "x'y" }] }],
  ['csv', { text: 'a,b,c\n1,2,3\n', columns: ['c', 'a'] }, { rows: [{ c: '3', a: '1' }], columns: ['c', 'a'] }],
  ['csv', { text: '1,2\n', header: false, columns: ['a', 'b'] }, { rows: [{ a: '1', b: '2' }] }],
  [
    'csv',
    { text: 'a,b,c,d,e,f\n1,1.50,007,true,,9007199254740993\n', types: 'auto' },
    { rows: [{ a: 1, b: 1.5, c: '007', d: true, e: null, f: '9007199254740993' }] },
  ],
  ['csv', { text: '' }, { rows: [], columns: [], count: 0 }],
  [
    'csv',
    { operation: 'stringify', rows: [{ a: 1, b: 'x,"y"' }, { b: { c: 1 } }] },
    { text: 'a,b\n1,"x,""y"""\n,"{""c"":1}"\n' },
  ],
  ['csv', { operation: 'stringify', rows: [['=1+1', 'x']], escapeFormulas: true }, { text: "'=1+1,x\n", columns: [] }],
  [
    'csv',
    { operation: 'stringify', rows: '[{"a":true}]', lineBreak: '\r\n', quoteAll: true },
    { text: '"a"\r\n"true"\r\n' },
  ],
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['csv', { text: 'a,b\n1,2\n3\n' }, /no CSV: Invalid Record Length.* on line 3/],
  ['csv', { text: 'a\n"b\n' }, /no CSV: Quote Not Closed.* line 2/],
  ['csv', { text: 'a\n"b"c\n' }, /no CSV: .*line 2 .*, cell 1/],
  ['csv', { text: 'a,a\n1,2\n' }, /The column "a" is there twice/],
  ['csv', { text: 'a\n1\n', columns: ['b'] }, /There is no column "b"; there are a/],
  ['csv', { text: 'a\n1\n2\n', maxRows: 1 }, /more than 1 rows/],
  ['csv', {}, /properties.text or properties.file is needed/],
  ['csv', { text: '', file: 'busbar:///files/0' }, /only one of them/],
  ['csv', { operation: 'stringify' }, /properties.rows is needed for stringify/],
  ['csv', { operation: 'stringify', rows: [1] }, /Row 1 is no object or list/],
  ['csv', { operation: 'stringify', rows: '{' }, /properties.rows is no list/],
  ['csv', { format: 'xlsx', text: 'x' }, /no zip archive/],
  ['csv', { format: 'parquet', text: 'PAR1 and so on PAR1' }, /no Parquet file/],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

t.test('tables as files', async (t) => {
  const rows = [
    { id: 1, name: '=1+1', ok: true, more: { a: [1] }, price: 1.5 },
    { id: 2, name: 'ü', ok: false, more: null, price: 2 },
  ]
  t.test('Excel', async (t) => {
    const { uri, count } = await call('csv', { operation: 'stringify', format: 'xlsx', rows, sheet: 'Films' })
    t.equal(count, 2)
    const read = await call('csv', { format: 'xlsx', file: uri, sheet: 'Films' })
    t.same(read.rows, [{ ...rows[0], more: '{"a":[1]}' }, rows[1]])
    t.match(await call('csv', { format: 'xlsx', file: uri, header: false }), {
      rows: [['id', 'name', 'ok', 'more', 'price'], { length: 5 }, {}],
    })
    await t.rejects(
      call('csv', { format: 'xlsx', file: uri, sheet: 'Other' }),
      failure('refused', 'There is no sheet Other'),
    )
    await t.rejects(call('csv', { format: 'xlsx', file: uri, maxRows: 1 }), failure('refused', /more than 1 rows/))
  })
  t.test('Parquet', async (t) => {
    for (const compression of ['snappy', 'none']) {
      const { uri } = await call('csv', { operation: 'stringify', format: 'parquet', rows, compression })
      t.equal(Buffer.from(files.get(String(uri))!.subarray(0, 4)).toString(), 'PAR1')
      t.same((await call('csv', { format: 'parquet', file: uri })).rows, rows)
      t.same((await call('csv', { format: 'parquet', file: uri, columns: ['name'] })).rows, [
        { name: '=1+1' },
        { name: 'ü' },
      ])
      await t.rejects(call('csv', { format: 'parquet', file: uri, maxRows: 1 }), failure('refused', /more than 1 rows/))
      await t.rejects(
        call('csv', { format: 'parquet', file: uri, columns: ['x'] }),
        failure('refused', /no column "x"/),
      )
    }
    await t.rejects(
      call('csv', { operation: 'stringify', format: 'parquet', rows: [] }),
      failure('refused', /needs columns/),
    )
  })
  t.test('rows by way of files, one as JSON a line', async (t) => {
    const text = 'id,name\n1,Ann\n2,Bob\n'
    const { uri, rows: inline, count } = await call('csv', { text, toFile: true })
    t.equal(Buffer.from(files.get(String(uri))!).toString(), '{"id":"1","name":"Ann"}\n{"id":"2","name":"Bob"}\n')
    t.same([inline, count], [undefined, 2])
    t.match(await call('csv', { operation: 'stringify', file: uri }), { text, count: 2 })
    t.match(await call('csv', { operation: 'stringify', text: '[["a", 1], ["b"]]' }), { text: 'a,1\nb\n' })
    t.match(await call('csv', { operation: 'stringify', text: '["a"]\n["b"]\n' }), { text: 'a\nb\n' })
    const bad = call('csv', { operation: 'stringify', text: '{"a":1}\n{"a":\n' })
    await t.rejects(bad, failure('refused', /no JSON: it ends too early at line 2, column 6/))
    const parquet = await call('csv', { operation: 'stringify', format: 'parquet', file: uri })
    const back = await call('csv', { format: 'parquet', file: parquet.uri, toFile: true })
    t.equal(back.uri === uri || Buffer.compare(files.get(String(back.uri))!, files.get(String(uri))!) === 0, true)
  })
  t.test('rows that are too large for the outputs', async (t) => {
    const large = `${'n'.repeat(20_000)}\n${'1\n'.repeat(2_000)}`
    await t.rejects(
      call('csv', { text: large }),
      failure('refused', 'The rows are larger than 16 MB: give properties.toFile'),
    )
    t.match(await call('csv', { text: large, toFile: true }), { count: 2_000, sizeBytes: 40_018_000 })
    await t.rejects(
      call('csv', { text: large.repeat(2), toFile: true }),
      failure('refused', 'The rows are larger than 64 MB'),
    )
  })
  t.test('CSV in other encodings', async (t) => {
    files.set('latin', Buffer.from('a\nä\n', 'latin1'))
    t.same((await call('csv', { file: 'latin', encoding: 'windows-1252' })).rows, [{ a: 'ä' }])
    await t.rejects(call('csv', { file: 'latin' }), failure('refused', 'properties.file is not a text in UTF-8'))
    const { uri, text } = await call('csv', { operation: 'stringify', rows, toFile: true, byteOrderMark: true })
    t.equal(text, undefined)
    t.match(await call('csv', { file: uri }), { rows: [{ id: '1', name: '=1+1', ok: 'true' }, { name: 'ü' }] })
  })
})

const cell = fc.string({ unit: fc.constantFrom('a', 'ü', '"', ',', ';', '\n', '\r', ' ', '\ufeff', "'", '0', '𝄞') })

t.test('CSV of any cells', async () => {
  const table = fc
    .integer({ min: 1, max: 4 })
    .chain((width) => fc.array(fc.array(cell, { minLength: width, maxLength: width }), { minLength: 1 }))
  await fc.assert(
    fc.asyncProperty(
      table,
      fc.constantFrom(',', ';', '\t'),
      fc.constantFrom('\n', '\r\n'),
      async (rows, delimiter, lineBreak) => {
        const written = await call('csv', { operation: 'stringify', rows, delimiter, lineBreak, header: false })
        const read = await call('csv', { text: written.text, delimiter, header: false })
        return JSON.stringify(read.rows) === JSON.stringify(rows)
      },
    ),
    runs,
  )
})
