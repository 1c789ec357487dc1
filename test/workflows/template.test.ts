import t from 'tap'
import {
  credentialsIn,
  holds,
  Lookup,
  renderValue,
  TemplateMistake,
  templateMistake,
} from '../../schemas/workflows/template.ts'

const scope = {
  inputs: { name: 'Ann', n: 3 },
  outputs: {
    rows: { list: [1, 2], big: '9007199254740993' },
    'with-dash': { field: 'x' },
    lazy: new Lookup(async (key) => ({ a: 1 })[key]),
  },
}

for (const [template, value] of [
  ['plain', 'plain'],
  ['Hello {{ inputs.name }}!', 'Hello Ann!'],
  ['{{ outputs["rows"]["list"] }}', [1, 2]],
  ['{{ outputs.rows.list | size }}', 2],
  ['{{ outputs["with-dash"]["field"] }}', 'x'],
  ['{{ inputs.n }}', 3],
  ['{{ inputs.n }} of {{ inputs.n }}', '3 of 3'],
  ['{{ inputs.missing }}', null],
  ['{{ outputs.lazy.a }}', 1],
  ['a{{ outputs.lazy.a }}', 'a1'],
  ['{% if inputs.n > 2 %}many{% else %}few{% endif %}', 'many'],
  ['{{ inputs.name | upcase | append: "!" }}', 'ANN!'],
  [
    { a: ['{{ inputs.n }}', true, null], b: 7 },
    { a: [3, true, null], b: 7 },
  ],
] as const) {
  t.test(`${JSON.stringify(template)} renders to ${JSON.stringify(value)}`, async (t) => {
    t.same(await renderValue(template, scope), value)
  })
}

t.test('credentials', async (t) => {
  const credentials = { TOKEN: 's3cret', 'DB.password': 'p' }
  t.same(await renderValue({ h: 'Bearer ${TOKEN}', p: '${DB.password}' }, scope, credentials), {
    h: 'Bearer s3cret',
    p: 'p',
  })
  t.same(credentialsIn(['${TOKEN} ${DB.password}', { x: '${TOKEN}' }, '$${NOT}', '{{ "${NOR}" }}']), [
    { name: 'TOKEN', field: null },
    { name: 'DB', field: 'password' },
  ])
  t.equal(await renderValue('$${TOKEN}', scope, credentials), '${TOKEN}', 'two dollar signs stay one')
  t.equal(
    await renderValue('{{ inputs.evil }}', { inputs: { evil: '${TOKEN} {{ busbarCredentials.TOKEN }}' } }, credentials),
    '${TOKEN} {{ busbarCredentials.TOKEN }}',
    'data that looks like one stays what it is',
  )
  await t.rejects(renderValue('{{ busbarCredentials.TOKEN }}', scope, credentials), TemplateMistake)
  t.match(templateMistake('{{ busbarCredentials | to_json }}'), /cannot be named/)
})

t.test('nothing of the host is within reach', async (t) => {
  for (const expression of [
    'inputs.constructor',
    'inputs.__proto__',
    'outputs.rows.list.constructor.constructor',
    'process',
  ]) {
    t.equal(await renderValue(`{{ ${expression} }}`, scope), null, expression)
  }
  await t.rejects(renderValue('{% include "/etc/passwd" %}', scope), TemplateMistake)
  await t.rejects(renderValue('{% render "x" %}', scope), TemplateMistake)
})

t.test('a template that never ends, or grows too large, is stopped', async (t) => {
  const forever = '{% for a in (1..100000) %}{% for b in (1..100000) %}{{ a }}{% endfor %}{% endfor %}'
  await t.rejects(renderValue(forever, scope), TemplateMistake)
  await t.rejects(renderValue('{% for a in (1..1000000000) %}x{% endfor %}', scope), TemplateMistake)
})

t.test('mistakes are found before a template is used', async (t) => {
  for (const text of ['{{ a', '{% if %}', '{% nosuch %}', '{{ a | nosuch }}', '{{ }}', 'x'.repeat(100_001)]) {
    t.type(templateMistake(text), 'string', text.slice(0, 30))
  }
  t.equal(templateMistake('{{ a | upcase }} ${TOKEN}'), null)
})

t.test('what holds as a condition', async (t) => {
  for (const yes of [true, 1, 'true', 'x', [], {}]) t.equal(holds(yes), true, JSON.stringify(yes))
  for (const no of [false, 0, null, undefined, '', ' ', 'false', '0', 'null'])
    t.equal(holds(no), false, JSON.stringify(no))
})
