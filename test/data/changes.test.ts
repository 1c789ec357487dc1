import fc from 'fast-check'
import t from 'tap'
import { compareDecimals } from '../../gateways/data/changes-decimal.ts'
import { Change } from '../../gateways/data/changes-event.ts'
import { rawElements, rawMembers, writeMembers } from '../../gateways/data/changes-json.ts'
import { Places } from '../../gateways/data/changes-places.ts'
import { type Arrival, ChangeRing } from '../../gateways/data/changes-ring.ts'
import { includedIn } from '../../gateways/data/changes-snapshot.ts'

t.test('JSON is cut into the texts of its members', (t) => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom(undefined, 2), (value, indent) => {
      const members = rawMembers(JSON.stringify(value, null, indent))
      const read = Object.fromEntries([...members].map(([name, text]) => [name, JSON.parse(text)]))
      t.strictSame(Object.keys(read), Object.keys(JSON.parse(JSON.stringify(value))))
      t.equal(JSON.stringify(read), JSON.stringify(JSON.parse(JSON.stringify(value))))
      t.equal(JSON.stringify(JSON.parse(writeMembers(members, () => true))), JSON.stringify(read))
    }),
    { numRuns: 200 },
  )
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), (values) => {
      const json = JSON.stringify(values)
      t.equal(`[${rawElements(json).join(',')}]`, json)
    }),
    { numRuns: 100 },
  )
  t.strictSame(
    [...rawMembers('{"a" : 1.10, "b":"x\\\\\\"}"}')],
    [
      ['a', '1.10'],
      ['b', '"x\\\\\\"}"'],
    ],
  )
  t.end()
})

t.test('numbers are compared with all their digits', (t) => {
  const rising = ['"-Infinity"', '-1e3', '-9007199254740993', '-9007199254740992', '-0.1', '0', '1e-9', '0.10', '0.11']
    .concat(['1.5', '9007199254740992', '9007199254740993', '1e400', '"Infinity"', '"NaN"'])
    .sort((one, other) => compareDecimals(one, other))
  t.strictSame(rising, [
    ...['"-Infinity"', '-9007199254740993', '-9007199254740992', '-1e3', '-0.1', '0', '1e-9', '0.10', '0.11', '1.5'],
    ...['9007199254740992', '9007199254740993', '1e400', '"Infinity"', '"NaN"'],
  ])
  for (const [one, other] of [
    ['1.50', '1.5'],
    ['-0', '0.000'],
    ['1e2', '100'],
    ['"NaN"', '"NaN"'],
  ] as const) {
    t.equal(compareDecimals(one, other), 0, `${one} = ${other}`)
  }
  fc.assert(
    fc.property(fc.bigInt(), fc.bigInt(), fc.nat(6), (one, other, places) => {
      const sign = Math.sign(compareDecimals(scaled(one, places), scaled(other, places)))
      t.equal(sign, one === other ? 0 : one < other ? -1 : 1)
    }),
    { numRuns: 300 },
  )
  t.end()
})

function scaled(value: bigint, places: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(places + 1, '0')
  const point = digits.length - places
  return `${value < 0n ? '-' : ''}${digits.slice(0, point)}${places > 0 ? `.${digits.slice(point)}` : ''}`
}

const change = (sequence: number, body: string): Change =>
  new Change({ sequence, type: 'UPDATE', transaction: 1, receivedAt: 0 }, Buffer.from(body))
const arrival = (sequence: number, table: string, size = 100): Arrival => ({
  ...{ sequence, receivedAt: sequence * 10, table, gap: null },
  change: change(sequence, 'x'.repeat(size)),
})

t.test('the ring holds the last arrivals, and knows from where on', (t) => {
  const ring = new ChangeRing(1, 3_000)
  for (let sequence = 1; sequence <= 5_000; sequence++) ring.push(arrival(sequence, sequence % 2 ? 'odd' : 'even'))
  t.equal(ring.start, 4_991, '300 bytes each')
  t.strictSame(
    ring.of('even', ring.start, 100).map(({ sequence }) => sequence),
    [4992, 4994, 4996, 4998, 5000],
  )
  t.strictSame(
    ring.of('odd', 4_994, 2).map(({ sequence }) => sequence),
    [4995, 4997],
  )
  t.strictSame(ring.of('odd', 5_000, 10), [])
  t.equal(ring.since(49_950, 5_001), 4_995)
  t.equal(ring.since(60_000, 5_001), 5_001)
  ring.push(arrival(5_001, 'odd', 10_000))
  t.equal(ring.start, 5_002, 'one that is larger than the ring is not held')
  t.end()
})

t.test('a snapshot includes what was committed before it', (t) => {
  const includes = includedIn('100:110:103,105')
  const shown = [99, 100, 103, 104, 105, 109, 110].filter((transaction) => includes({ transaction }))
  t.strictSame(shown, [99, 100, 104, 109])
  const present = 3n * 2n ** 32n + 5n
  const wrapped = includedIn(`${present - 10n}:${present}:`)
  t.ok(wrapped({ transaction: 2 ** 32 - 3 }), 'an id from before the low half began anew')
  t.ok(wrapped({ transaction: 4 }))
  t.notOk(wrapped({ transaction: 5 }))
  t.end()
})

t.test('a change is projected to columns once', (t) => {
  const whole = change(
    7,
    '{"type":"UPDATE","data":{"old":{"id":1,"a":1.10},"new":{"id":1,"a":2.20,"b":"x"}},"timestamp":5}',
  )
  const some = whole.project('key', new Set(['id', 'a']), new Set(['id']))
  t.equal(some.body.toString(), '{"type":"UPDATE","data":{"old":{"id":1},"new":{"id":1,"a":2.20}},"timestamp":5}')
  t.equal(whole.project('key', new Set(), new Set()), some)
  t.equal(some.frame.toString(), `id: 7\nevent: UPDATE\ndata: ${some.body}\n\n`)
  t.end()
})

t.test('so many work at a time', async (t) => {
  const places = new Places(2)
  let working = 0
  let most = 0
  const work = async () => {
    working += 1
    most = Math.max(most, working)
    await new Promise((resolve) => setImmediate(resolve))
    working -= 1
  }
  const failing = t.rejects(places.take(() => Promise.reject(new Error('no'))))
  await Promise.all([failing, ...Array.from({ length: 9 }, () => places.take(work))])
  t.equal(most, 2)
})
