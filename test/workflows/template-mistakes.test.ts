import fc from 'fast-check'
import t from 'tap'
import { readFlow } from '../../schemas/workflows/flow-yaml.ts'
import { renderData, TemplateMistake, templateMistake, templateReferences } from '../../schemas/workflows/template.ts'

const reading = [
  "{% include 'x' %}",
  '{% include inputs.x %}',
  "{% render '/etc/passwd' %}",
  "{% layout 'x' %}",
  '{% block a %}x{% endblock %}',
]

t.test('a tag that reads other templates is a mistake with its place', async (t) => {
  for (const text of reading) {
    t.match(templateMistake(text), /tag "\w+" not found/, text)
    await t.rejects(renderData(text, {}, { strict: false, escaping: 'none' }), TemplateMistake)
  }
  const yaml = `name: q\ntasks:\n  - { name: a, type: util.log, properties: { message: "${reading[0]}" } }\n`
  const { problems } = readFlow(yaml, { find: () => undefined, all: () => [] })
  t.match(
    problems.find(({ path }) => path === 'tasks[0].properties.message'),
    { line: 3, message: /is no template: tag "include" not found/ },
  )
})

t.test('of whatever is no mistake it can be told what it names', async (t) => {
  const piece = fc.constantFrom(
    '{{', '}}', '{%', '%}', '-', ' ', 'inputs', '.', 'x', '["a"]', '[0]', '[inputs.x]', '|', 'upcase', 'append:', '"', "'", ',', '(1..3)',
    'if', 'endif', 'else', 'for', 'endfor', 'a in b', 'assign a =', 'capture a', 'endcapture', 'case', 'when', 'endcase', 'raw', 'endraw',
    'comment', 'endcomment', 'include', 'render', 'liquid', 'tablerow', 'cycle', 'increment a', '\n', '${A}', '$${A.b}', '#', '==', 'and',
  ) // biome-ignore format: a table
  const property = fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
    const inner = pieces.join(pieces.length % 2 === 0 ? ' ' : '')
    const text = pieces.length % 3 === 0 ? inner : `{{ x${inner} }}`
    return templateMistake(text) !== null || Array.isArray(templateReferences(text))
  })
  const { failed, counterexample } = fc.check(property, { numRuns: 5_000 })
  t.notOk(failed, JSON.stringify(counterexample))
})
