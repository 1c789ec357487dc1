import fc from 'fast-check'
import t from 'tap'
import { Type } from 'typebox'
import { carrying, trailAfter } from '../../bus/decide.ts'
import { decodeMessage, encodeMessage, type HeaderReader } from '../../bus/envelope.ts'
import {
  type Aggregate,
  causedId,
  defineEvent,
  defineEvents,
  type Fact,
  MessageInvalid,
  partsOf,
  type Trail,
} from '../../bus/message.ts'
import { childTrace, formatTrace, newTrace, parseTrace, traceHeaders, traceOf } from '../../bus/trace.ts'

const Opened = defineEvent(
  'bank.account.opened',
  Type.Object({ owner: Type.String() }, { additionalProperties: false }),
)
const Paid = defineEvent('bank.account.paid-in', Type.Object({ cents: Type.Integer({ minimum: 1 }) }))
const events = defineEvents(Opened, Paid)

function reader(headers: Readonly<Record<string, string>>): HeaderReader {
  return { get: (name) => headers[name] ?? '' }
}

t.test('a message comes back as it was written, whatever its texts are', async () => {
  const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 }).filter((value) => value.isWellFormed())
  fc.assert(
    fc.property(text, text, text, fc.array(fc.integer({ min: 1 }), { minLength: 1 }), (id, actor, owner, sums) => {
      const message = {
        id,
        actor,
        causation: causedId(id, 'x'),
        facts: [Opened.of({ owner }), ...sums.map((cents) => Paid.of({ cents }))],
        state: { version: 3, data: { owner } },
      }
      const { headers, body } = encodeMessage(events, message)
      for (const value of Object.values(headers)) if (!/^[!-~]+$/.test(value)) throw new Error(`bad header ${value}`)
      const back = decodeMessage(events, reader(headers), Buffer.from(body))
      return JSON.stringify(Object.entries(back).sort()) === JSON.stringify(Object.entries(message).sort())
    }),
  )
})

t.test('the headers name the facts once each, with their versions', async (t) => {
  const facts = [Opened.of({ owner: 'a' }), Paid.of({ cents: 1 }), Paid.of({ cents: 2 })]
  const { headers } = encodeMessage(events, { id: 'one', facts, actor: 'Zoë 50%' })
  t.same(headers, {
    'Nats-Msg-Id': 'one',
    'Busbar-Facts': 'bank.account.opened@1,bank.account.paid-in@1',
    'Busbar-Actor': 'Zo%C3%AB%2050%25',
  })
})

t.test('what breaks its schema is not written, and says where', async (t) => {
  const encode = (facts: never[]) => () => encodeMessage(events, { id: 'one', facts })
  t.throws(encode([Paid.of({ cents: 0 })] as never[]), { name: 'MessageInvalid', message: /paid-in\/cents .*>= 1/ })
  t.throws(encode([{ type: 'bank.account.closed', data: {} }] as never[]), { message: /closed is not an event/ })
  t.throws(encode([]), { message: /at least one fact/ })
  t.throws(() => encodeMessage(events, { id: '', facts: [Paid.of({ cents: 1 })] }), { message: /id is empty/ })
  t.throws(() => encodeMessage(events, { id: 'i', actor: 'x'.repeat(513), facts: [Paid.of({ cents: 1 })] }), {
    message: /actor is longer than 512/,
  })
})

t.test('what is not a message is refused when read', async (t) => {
  const decode = (body: string) => () => decodeMessage(events, reader({}), body)
  const stored = (type: string, version: number, data: unknown) => JSON.stringify({ facts: [{ type, version, data }] })
  for (const [body, message] of [
    ['{', /not JSON/],
    ['null', /no facts/],
    ['{"facts":[null]}', /no type or no version/],
    [stored('bank.account.closed', 1, {}), /not an event known/],
    [stored('bank.account.paid-in', 2, { cents: 1 }), /has version 2; this program knows 1 to 1/],
    [stored('bank.account.paid-in', 0, { cents: 1 }), /has version 0/],
    [stored('bank.account.paid-in', 1, { cents: 'one' }), /paid-in\/cents/],
    [stored('__proto__', 1, {}), /not an event known/],
  ] as const) {
    t.throws(decode(body), { name: 'MessageInvalid', message }, body)
  }
})

t.test('any body is a message or MessageInvalid, never another error', async () => {
  const facts = fc.record({
    type: fc.constantFrom('bank.account.opened', 'toString', ''),
    version: fc.integer(),
    data: fc.json(),
  })
  const body = fc.oneof(
    fc.string(),
    fc.json(),
    fc.record({ facts: fc.array(facts) }).map((value) => JSON.stringify(value)),
  )
  fc.assert(
    fc.property(body, fc.string(), (text, id) => {
      try {
        decodeMessage(events, reader({ 'Nats-Msg-Id': id }), text)
      } catch (error) {
        if (!(error instanceof MessageInvalid)) throw error
      }
    }),
  )
})

t.test('facts of any older version, and of a type that was replaced, are read in today’s shape', async () => {
  const name = (data: { first: string; last: string }) => ({ name: `${data.first} ${data.last}` })
  const Named = defineEvent('bank.holder.named', Type.Object({ name: Type.String(), language: Type.String() }), {
    version: 3,
    upcasters: { 1: name, 2: (data: { name: string }) => ({ ...data, language: 'en' }) },
    replaces: { 'bank.holder.called': (data: { call: string }) => ({ name: data.call, language: 'la' }) },
  })
  const set = defineEvents(Named)
  const text = fc.string()
  const older = fc.oneof(
    fc.record({ version: fc.constant(1), data: fc.record({ first: text, last: text }) }),
    fc.record({ version: fc.constant(2), data: fc.record({ name: text }) }),
    fc.record({ version: fc.constant(3), data: fc.record({ name: text, language: text }) }),
  )
  fc.assert(
    fc.property(older, ({ version, data }) => {
      const { data: now } = set.restore({ type: Named.type, version, data })
      const was = data as { first?: string; last?: string; name?: string; language?: string }
      // What is read is written back and read again unchanged.
      const again = set.restore(JSON.parse(JSON.stringify(set.store(Named.of(now)))))
      return (
        now.name === (version === 1 ? `${was.first} ${was.last}` : was.name) &&
        now.language === (version === 3 ? was.language : 'en') &&
        JSON.stringify(again.data) === JSON.stringify(now)
      )
    }),
  )
  t.same(set.restore({ type: 'bank.holder.called', version: 1, data: { call: 'Rex' } }), {
    type: 'bank.holder.named',
    data: { name: 'Rex', language: 'la' },
  })
  t.throws(() => set.store({ type: 'bank.holder.called', data: {} } as never), { name: 'MessageInvalid' })
})

t.test('a definition that cannot work is refused at once', async (t) => {
  t.throws(() => defineEvent('opened', Type.Object({})), /not <component>.<entity>.<fact>/)
  t.throws(() => defineEvent('a.b.c', Type.Object({}), { version: 3, upcasters: { 1: () => ({}) } }), /its version 2/)
  t.throws(() => defineEvents(Opened, Opened), /defined twice/)
})

t.test('a traceparent is read, passed on and continued', async (t) => {
  const trace = newTrace()
  t.same(parseTrace(formatTrace(trace)), trace)
  t.same(traceOf(reader(traceHeaders(trace))), trace)
  const child = childTrace(trace)
  t.equal(child.traceId, trace.traceId)
  t.not(child.spanId, trace.spanId)
  const [id, span] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331']
  t.same(parseTrace(`00-${id}-${span}-00`), { traceId: id, spanId: span, sampled: false })
  t.same(parseTrace(`cc-${id}-${span}-01-what-comes`), { traceId: id, spanId: span, sampled: true })
  for (const bad of [
    undefined,
    '',
    `ff-${id}-${span}-01`,
    `00-${id}-${span}-01-more`,
    `00-${'0'.repeat(32)}-${span}-01`,
    `00-${id}-${'0'.repeat(16)}-01`,
    `00-${id.toUpperCase()}-${span}-01`,
  ]) {
    t.equal(parseTrace(bad), null, bad ?? 'none')
  }
})

t.test('however large a state grows, carrying it costs no more than the facts do', async (t) => {
  const list: Aggregate<readonly string[], Fact> = { events: defineEvents(), initial: [], evolve: (state) => state }
  let trail: Trail = { base: 0, bytes: 0, sizeBytes: 0 }
  const state: string[] = []
  let carriedBytes = 0
  let carriers = 0
  let longest = 0
  const facts = 10_000
  const fact = { type: 'test.list.added', data: 'x'.repeat(200) }
  for (let sequence = 1; sequence <= facts; sequence++) {
    state.push('x'.repeat(100))
    const carried = carrying(list, state, { trail, facts: [fact] })
    trail = trailAfter(carried, sequence)
    longest = Math.max(longest, trail.bytes)
    if (carried.state === undefined || state.length < 200) continue
    carriedBytes += 103 * state.length
    carriers++
  }
  t.ok(carriedBytes <= 250 * facts, `${carriedBytes} bytes`)
  t.ok(carriers > 5 && carriers < 100, `${carriers} messages`)
  t.ok(longest <= 110 * facts, 'and what is left to be folded is no more than the state')
})

const filler = 'x'.repeat(1_500_000)

t.test('facts are cut into parts that fit, and none is lost', async (t) => {
  const sizes = fc.array(fc.oneof({ weight: 60, arbitrary: fc.constant(9) }, fc.integer({ min: 0, max: 1_500_000 })), {
    maxLength: 1_500,
    size: 'max',
  })
  const check = (wanted: readonly number[]) => {
    const facts = wanted.map((size, index) => ({ type: 'a.b.c', data: { index, text: filler.slice(0, size) } }))
    const parts = partsOf(facts)
    const cut = parts.flat()
    const whole = cut.length === facts.length && cut.every(({ data }, index) => data.index === index)
    const lengths = parts.map((part) => part.reduce((length, { data }) => length + data.text.length, 0))
    return whole && parts.every((part) => part.length > 0 && part.length <= 500) && lengths.every((each) => each < 6e6)
  }
  fc.assert(fc.property(sizes, check), { numRuns: 12 })
  t.ok(check(Array.from({ length: 2_000 }, () => 9)))
})
