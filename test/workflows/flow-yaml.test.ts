import t from 'tap'
import { flowJsonSchema } from '../../schemas/workflows/flow-json-schema.ts'
import { type KnownPlugins, readFlow } from '../../schemas/workflows/flow-yaml.ts'
import { pluginAliases, pluginId } from '../../schemas/workflows/plugin-manifest.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'

const manifests = catalogue.map(({ manifest }) => manifest)
const plugins: KnownPlugins = {
  all: () => manifests,
  find: (type) => manifests.find(({ id }) => id === pluginId(type)),
}

const read = (text: string) => readFlow(text, plugins)

function planOf(text: string) {
  const { plan, problems } = read(text)
  if (plan === null) throw new Error(JSON.stringify(problems))
  return plan
}

const log = (name: string, more = '') => `  - { name: ${name}, type: util.log, properties: { message: x }${more} }\n`
const head = 'name: f\ntasks:\n'

/** YAML, and each problem as `line:column path message`. */
const refused: Readonly<Record<string, readonly [string, readonly (string | RegExp)[]]>> = {
  'an empty text': ['', ['1:1  must be a mapping, not nothing']],
  'a list': ['- a\n', ['1:1  must be a mapping, not a list']],
  'nothing of what it needs': ['description: x\n', ['1:1  needs name', '1:1  needs tasks']],
  'no task': ['name: f\ntasks: []\n', ['2:8 tasks must have a task']],
  'tasks that are no list': ['name: f\ntasks: 5\n', ['2:8 tasks must be a list, not a number']],
  'an unknown key': [`nam: f\n${head}${log('a')}`, ['1:1 nam is no key here; perhaps you meant name']],
  'a key twice': [`name: g\n${head}${log('a')}`, [/^2:1 {2}Map keys must be unique/]],
  'bad syntax': ['name: f\ntasks: [\n', [/^3:1 {2}/]],
  'two documents': [`${head}${log('a')}---\nname: g\n`, ['4:1  There must be one document']],
  'a tag': [`name: !secret f\ntasks:\n${log('a')}`, [/^1:7 {2}Unresolved tag: !secret/]],
  'an older YAML': [`%YAML 1.1\n---\n${head}${log('a')}`, [/Only YAML 1\.2 is read here/]],
  'a key that is no text': [`? [a]\n: b\n${head}${log('a')}`, [/^1:3 {2}With stringKeys/]],
  'an alias of nothing': [`${head}  - *a\n`, ['3:5  There is no anchor &a before it']],
  'an alias that holds itself': [`${head}  - &a [*a]\n`, ['3:9  *a holds itself']],
  'an alias bomb': [
    `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefgh'
      .split('')
      .map((name, index) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[index]}`).join(',')}]\n`)
      .join('')}`,
    [/More than 50000 values/],
  ],
  'texts that no database holds': [
    `name: "f\\0"\nlabels: { a: "\\0", "b\\0": c }\ntasks:\n${log('a')}`,
    [
      '1:7 name must hold no NUL and no half of a surrogate pair',
      '2:9 labels "a" must hold no NUL and no half of a surrogate pair',
      '2:9 labels "b\\u0000" must hold no NUL and no half of a surrogate pair',
    ],
  ],
  'a wait that no calendar knows, or that is none': [
    `${head}${['9000000d', '99999999999d', 'soon', 4e12].map((each, index) => `  - { name: a${index}, type: core.wait, properties: { duration: ${each} } }\n`).join('')}  - { name: b, type: core.approval, properties: { timeout: 3651d } }\n`,
    [
      '3:58 tasks[0].properties.duration is longer than ten years, 3650d',
      '4:58 tasks[1].properties.duration is longer than ten years, 3650d',
      '5:58 tasks[2].properties.duration is no duration: write 30s, 5m or PT1H',
      '6:58 tasks[3].properties.duration is longer than ten years, 3650d',
      '7:60 tasks[4].properties.timeout is longer than ten years, 3650d',
    ],
  ],
  'a number that would lose digits': [
    `${head}  - { name: a, type: util.log, properties: { message: 12345678901234567890 } }\n`,
    [/^3:55 {2}12345678901234567890 would lose digits/],
  ],
  'a number that is none': [
    `${head}  - { name: a, type: util.log, properties: { message: .nan } }\n`,
    ['3:55  .nan is no number that JSON can carry'],
  ],
  'what nests without end': [`name: ${'['.repeat(500)}\n`, [/Nested deeper than 64/]],
  'what nests too deep': [
    `name: f\nvariables:\n${Array.from({ length: 70 }, (_, i) => `${' '.repeat(i + 1)}a:\n`).join('')}`,
    [/Nested deeper than 64/],
  ],
  'a text that is too large': [`name: f\n# ${'x'.repeat(600_000)}\n`, ['1:1  The text has more than 524288 bytes']],
  'a name that is none': [`name: 5\ntasks:\n${log('a')}`, ['1:7 name must be a text, not a number']],
  'a namespace that is none': [`namespace: a b\n${head}${log('a')}`, [/^1:12 namespace must hold letters/]],
  'a task without name and type': [`${head}  - {}\n`, ['3:5 tasks[0] needs name', '3:5 tasks[0] needs type']],
  'a task that is no mapping': [`${head}  - log\n`, ['3:5 tasks[0] must be a mapping, not a text']],
  "a task's name": [`${head}${log('a b')}`, [/^3:13 tasks\[0\]\.name must begin with a letter/]],
  'a name twice': [head + log('a') + log('a'), ['4:13 tasks[1].name The flow has another task a']],
  'a name twice, in another block': [
    `${head}  - name: a\n    type: core.parallel\n    tasks:\n      - { name: a, type: util.log, properties: { message: x } }\n`,
    ['6:17 tasks[0].tasks[0].name The flow has another task a'],
  ],
  'an unknown plugin': [
    `${head}  - name: a\n    type: util.lgo\n`,
    ['4:11 tasks[0].type There is no plugin util.lgo; perhaps you meant util.log'],
  ],
  'an unknown key of a task': [
    `${head}  - name: a\n    type: util.log\n    properties: { message: x }\n    dependOn: [b]\n`,
    ['6:5 tasks[0].dependOn is no key here; perhaps you meant dependsOn'],
  ],
  'a block that the plugin does not have': [
    `${head}  - name: a\n    type: util.log\n    properties: { message: x }\n    then: []\n`,
    ['6:5 tasks[0].then is no key here'],
  ],
  'a loop without tasks': [
    `${head}  - { name: a, type: core.foreach, properties: { items: [1] } }\n`,
    ['3:5 tasks[0] needs tasks'],
  ],
  'a property that is missing': [`${head}  - { name: a, type: util.log }\n`, ['3:5 tasks[0] properties needs message']],
  'a property that there is not': [
    `${head}  - name: a\n    type: util.log\n    properties:\n      message: x\n      mesage: x\n`,
    ['7:7 tasks[0].properties.mesage is no property of the plugin; perhaps you meant message'],
  ],
  'a property of another type': [
    `${head}  - name: a\n    type: core.foreach\n    properties:\n      items: []\n      concurrency: many\n    tasks:\n${log('b').replace(/^/, '    ')}`,
    ['7:20 tasks[0].properties.concurrency must be integer, not a text'],
  ],
  'literals of another type than the plugin documents': [
    `${head}  - name: a
    type: http.request
    properties:
      url: 5
      method: false
      headers: { X-Tries: 3, X-List: [1] }
      query: { n: 1 }
      retries: '5'
  - name: b
    type: script.shell
    properties: { script: true, env: { PORT: 8080, DEBUG: yes, FLAG: true, NONE: {} } }
`,
    [
      '6:12 tasks[0].properties.url must be string, not a number',
      '7:15 tasks[0].properties.method must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
      /^8:38 .*headers\.X-List must be either string or number or boolean, not a list/,
      /^10:16 .*retries must be integer, not a text/,
      /^13:27 .*script must be string, not a truth value/,
      /^13:82 .*env\.NONE must be either string or number or boolean, not a mapping/,
    ],
  ],
  'a property out of range': [
    `${head}  - name: a\n    type: core.foreach\n    properties: { items: [], concurrency: 5000 }\n    tasks:\n${log('b').replace(/^/, '    ')}`,
    [/^5:43 tasks\[0\]\.properties\.concurrency must be <= 1000/],
  ],
  'a property that is none of its choices': [
    `${head}  - { name: a, type: util.log, properties: { message: x, level: wran } }\n`,
    ['3:65 tasks[0].properties.level must be one of debug, info, warn, error; perhaps you meant warn'],
  ],
  'a need that there is not': [
    head + log('alpha') + log('b', ', dependsOn: [alpa]'),
    ['4:72 tasks[1].dependsOn[0] is no other task of this block; perhaps you meant alpha'],
  ],
  'a need of itself': [head + log('a', ', dependsOn: [a]'), ['3:72 tasks[0].dependsOn[0] is the task itself']],
  'a need twice': [head + log('a') + log('b', ', dependsOn: [a, a]'), ['4:75 tasks[1].dependsOn[1] names a twice']],
  'a need in another block': [
    `${head}${log('a')}  - name: p\n    type: core.parallel\n    tasks:\n      - { name: b, type: util.log, properties: { message: x }, dependsOn: [a] }\n`,
    ['7:76 tasks[1].tasks[0].dependsOn[0] is no other task of this block'],
  ],
  'a cycle': [
    head + log('start') + log('a', ', dependsOn: [c]') + log('b', ', dependsOn: [a]') + log('c', ', dependsOn: [b]'),
    ['4:71 tasks[1].dependsOn waits for itself: a -> c -> b -> a'],
  ],
  'a template that cannot be read': [
    `${head}  - { name: a, type: util.log, properties: { message: '{{ 1 | nofilter }}' } }\n`,
    [/^3:55 tasks\[0\]\.properties\.message is no template: undefined filter: nofilter/],
  ],
  'a template that is not closed': [
    `${head}  - { name: a, type: util.log, runIf: '{% if x %}', properties: { message: x } }\n`,
    [/^3:39 tasks\[0\]\.runIf is no template: /],
  ],
  'outputs of no task': [
    `${head}${log('fetch')}  - name: b\n    type: util.log\n    properties:\n      message: 'got {{ outputs["fetsh"]["body"] }}'\n`,
    ['7:16 tasks[1].properties.message names a task fetsh that the flow does not have; perhaps you meant fetch'],
  ],
  'outputs of no task, in the outputs': [
    `${head}${log('a')}outputs:\n  x: '{{ outputs.b.message }}'\n`,
    ['5:6 outputs.x names a task b that the flow does not have; perhaps you meant a'],
  ],
  'an input that is not declared': [
    `name: f\ninputs: [{ name: city }]\ntasks:\n  - { name: a, type: util.log, properties: { message: '{{ inputs.town }}' } }\n`,
    ['4:55 tasks[0].properties.message names an input town that the flow does not have'],
  ],
  'a name that no template has': [
    `${head}  - { name: a, type: util.log, properties: { message: '{{ input.city }}' } }\n`,
    [/names input, which there is not; perhaps you meant inputs/],
  ],
  'a retry': [
    `${head}  - name: a\n    type: util.log\n    properties: { message: x }\n    retry: { maxAttempts: 0, delay: soon, backoff: linear, jitter: 2, tries: 1 }\n`,
    [
      /^6:27 .*maxAttempts must be a whole number from 1 to 1000/,
      /^6:37 .*delay must be a duration/,
      /^6:52 .*backoff must be one of constant, exponential/,
      /^6:68 .*jitter must be a number from 0 to 1/,
      '6:71 tasks[0].retry.tries is no key here',
    ],
  ],
  'a timeout': [`timeout: never\n${head}${log('a')}`, [/^1:10 timeout must be a duration/]],
  concurrency: [
    `concurrency: { behavior: later }\n${head}${log('a')}`,
    ['1:14 concurrency needs limit', '1:26 concurrency.behavior must be one of queue, cancel, fail'],
  ],
  inputs: [
    `name: f\ninputs:\n  - { type: text }\n  - { name: n, type: integer, default: x }\n  - { name: p, pattern: '(' }\n  - { name: n, default: a }\ntasks:\n${log('a')}`,
    [
      '3:5 inputs[0] needs name',
      /^3:13 inputs\[0\]\.type must be one of string, integer/,
      /^4:40 inputs\[1\]\.default must be integer: this input is of the type integer/,
      /^5:5 inputs\[2\]\.type The words beside it are no JSON Schema/,
      '6:5 inputs[3] The flow has another input n',
    ],
  ],
  'a pattern that goes astray': [
    `name: f\ninputs:\n  - { name: n, pattern: '^(a+)+$', default: ${'a'.repeat(60)}! }\ntasks:\n${log('a')}`,
    [/^3:\d+ inputs\[0\]\.default takes too long to be matched against its pattern/],
  ],
  triggers: [
    `${head}${log('a')}triggers:\n  - { type: crn }\n  - { type: cron, name: t }\n  - { type: interval, name: t, every: often }\n  - { name: u }\n`,
    [
      /^5:13 triggers\[0\]\.type must be one of cron, .*; perhaps you meant cron/,
      '6:5 triggers[1] needs cron',
      '7:29 triggers[2].name The flow has another trigger t',
      /^7:39 triggers\[2\]\.every must be a duration/,
      '8:5 triggers[3] needs type',
    ],
  ],
}

t.test('tells what is wrong with a flow, and where', async (t) => {
  for (const [title, [text, expected]] of Object.entries(refused)) {
    const { plan, problems } = read(text)
    const told = problems.map(({ line, column, path, message }) => `${line}:${column} ${path} ${message}`)
    t.equal(plan, null, `${title} is refused`)
    t.match(told, expected, title)
    t.equal(told.length, expected.length, `${title}: nothing else is told (${told.join(' | ')})`)
  }
})

t.test('accepts templates in the place of any type', async (t) => {
  const text = (properties: string) =>
    `${head}  - name: a\n    type: core.foreach\n    properties: ${properties}\n    tasks:\n      - { name: b, type: util.log, properties: { message: '\${TOKEN}', level: '{{ inputs.level }}' } }\n`
  for (const properties of [
    '{ items: "{{ inputs.list }}", concurrency: "{{ inputs.n }}" }',
    '{ items: [1], concurrency: "{{ inputs.n }}" }',
    '{ items: [1], onFailure: "{% if true %}wait{% endif %}" }',
  ]) {
    t.strictSame(read(text(properties)).problems, [], properties)
  }
})

t.test('reads the order of tasks', async (t) => {
  const needs = (text: string) => Object.fromEntries(planOf(text).tasks.map(({ name, needs }) => [name, needs]))
  t.strictSame(needs(head + log('a') + log('b') + log('c')), { a: [], b: ['a'], c: ['b'] }, 'as they are written')
  t.strictSame(
    needs(head + log('a') + log('b') + log('c', ', dependsOn: [a, b]') + log('d', ', dependsOn: c')),
    { a: [], b: [], c: ['a', 'b'], d: ['c'] },
    'a graph once one says what it depends on',
  )
  const nested = (type: string) =>
    planOf(
      `${head}  - name: p\n    type: ${type}\n    properties: { ${type === 'core.foreach' ? 'items: [1]' : ''} }\n    tasks:\n    ${log('a')}    ${log('b')}    finally:\n    ${log('c')}    ${log('d')}`,
    ).tasks[0]!.blocks
  t.same(
    nested('core.parallel').tasks?.map(({ needs }) => needs),
    [[], []],
    'what is parallel waits for nothing',
  )
  t.same(
    nested('core.parallel').finally?.map(({ needs }) => needs),
    [[], ['c']],
    'but for its end',
  )
  t.same(
    nested('core.foreach').tasks?.map(({ needs }) => needs),
    [[], ['a']],
    'an iteration is in order',
  )
})

t.test('fills in defaults', async (t) => {
  t.strictSame(planOf(head + log('a')), {
    name: 'f',
    inputs: [],
    variables: {},
    outputs: {},
    tasks: [
      {
        name: 'a',
        type: 'util.log',
        properties: { message: 'x' },
        needs: [],
        runIf: null,
        retry: null,
        timeoutMs: null,
        allowFailure: false,
        idempotencyKey: null,
        workerGroup: null,
        blocks: {},
      },
    ],
    errors: [],
    finally: [],
    timeoutMs: null,
    concurrency: null,
    labels: {},
  })
})

t.test('reads everything there is', async (t) => {
  const { plan, namespace } = read(`
name: all of it
namespace: team.a
description: What it is for
labels: { team: a, priority: 1 }
inputs:
  city: string
  count: { type: integer, default: 3, minimum: 1, description: How many }
variables:
  greeting: Hello {{ inputs.city }}
tasks:
  - name: ask
    type: log
    properties: { message: '{{ vars.greeting }}' }
    retry: { maxAttempts: 5, delay: 2s, backoff: exponential, factor: 3, maxDelay: PT1M, jitter: 0.5 }
    timeout: 30s
    runIf: true
    allowFailure: true
    idempotencyKey: ask-{{ execution.id }}
    workerGroup: gpu
  - name: by-color
    type: core.switch
    properties: { value: red }
    cases:
      red: [{ name: stop, type: util.log, properties: { message: x } }]
      1: [{ name: one, type: util.log, properties: { message: x } }]
    default: [{ name: other, type: util.log, properties: { message: x } }]
errors: [{ name: tell, type: util.log, properties: { message: '{{ failure.message }}' } }]
finally: [{ name: tidy, type: util.log, properties: { message: x } }]
outputs: { said: '{{ outputs["ask"]["message"] }}' }
timeout: 1h
concurrency: { limit: 2, behavior: cancel }
triggers:
  - { name: nightly, type: cron, cron: '0 3 * * *', timezone: Europe/Berlin, inputs: { city: Berlin } }
`)
  t.equal(namespace, 'team.a')
  t.match(plan, {
    labels: { team: 'a', priority: '1' },
    inputs: [
      { name: 'city', type: 'string', required: true },
      { name: 'count', type: 'integer', required: false, default: 3, schema: { minimum: 1 }, description: 'How many' },
    ],
    tasks: [
      {
        type: 'util.log',
        retry: { maxAttempts: 5, delayMs: 2000, backoff: 'exponential', factor: 3, maxDelayMs: 60_000, jitter: 0.5 },
        timeoutMs: 30_000,
        runIf: 'true',
        allowFailure: true,
        idempotencyKey: 'ask-{{ execution.id }}',
        workerGroup: 'gpu',
      },
      {
        needs: ['ask'],
        blocks: { 'case:red': [{ name: 'stop' }], 'case:1': [{ name: 'one' }], default: [{ name: 'other' }] },
      },
    ],
    timeoutMs: 3_600_000,
    concurrency: { limit: 2, behavior: 'cancel' },
    triggers: [
      { name: 'nightly', type: 'cron', enabled: true, inputs: { city: 'Berlin' }, config: { cron: '0 3 * * *' } },
    ],
  })
})

t.test('reads the example of every plugin', async (t) => {
  for (const { id, example } of manifests) t.strictSame(read(example).problems, [], id)
})

t.test('has a JSON Schema with every plugin and none of what has a default as required', async (t) => {
  const schema = JSON.parse(JSON.stringify(flowJsonSchema(manifests)))
  for (const { id } of manifests) t.match(schema.$defs[id].properties.type, { const: id })
  t.strictSame(schema.$defs['core.foreach'].properties.properties.required, ['items'])
  t.match(schema.$defs['core.switch'].properties.cases, { type: 'object' })
})

t.test('other spellings of ids stand for ids that are none', async (t) => {
  for (const [alias, id] of Object.entries(pluginAliases)) {
    t.equal(pluginId(alias), id)
    t.notOk(Object.hasOwn(pluginAliases, id), `${id} is no alias itself`)
  }
})
