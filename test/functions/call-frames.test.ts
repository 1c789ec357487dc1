import fc from 'fast-check'
import t from 'tap'
import { readReplyHead } from '../../schemas/functions/call.ts'
import {
  AnswerWriter,
  batchOf,
  CallWriter,
  noteMessage,
  readAnswers,
  readCalls,
} from '../../schemas/functions/call-frames.ts'

const id = fc.integer({ min: 0, max: 2 ** 32 - 1 })
const bytes = fc.uint8Array({ maxLength: 300 })
const text = fc.string({ unit: 'binary', maxLength: 200 }).map((given) => given.toWellFormed())

t.test('calls come out as they went in, any number in a message', async (t) => {
  const call = fc.record({ id, deadlineAt: fc.double({ noNaN: true }), target: text, start: text, body: bytes })
  fc.assert(
    fc.property(id, fc.array(call, { maxLength: 40 }), (batch, calls) => {
      const writer = new CallWriter(batch)
      for (const { id, deadlineAt, target, start, body } of calls) writer.add(id, deadlineAt, target, start, body)
      const message = writer.end()
      const read = readCalls(message).map((each) => ({
        ...each,
        start: Buffer.from(each.start).toString('utf8'),
        body: Uint8Array.from(each.body),
      }))
      return t.equal(batchOf(message), batch) && t.same(read, calls)
    }),
  )
  const large = new CallWriter(1)
  const body = Buffer.alloc(1024 * 1024, 'é')
  for (const each of [1, 2]) large.add(each, 5, 'target', 'start', body)
  t.ok(readCalls(large.end()).every((each) => Buffer.compare(each.body, body) === 0))
})

t.test('so do answers, and the calls that a worker holds', async (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ id, head: text, body: bytes }), { maxLength: 40 }),
      fc.array(id),
      (given, held) => {
        const writer = new AnswerWriter()
        for (const { id, head, body } of given) writer.add(id, head, body)
        const answers: unknown[] = []
        const noted: number[] = []
        const take = {
          onAnswer: ({ id, head, body }: { id: number; head: string; body: Uint8Array }) =>
            answers.push({ id, head, body: Uint8Array.from(body) }),
          onNote: (id: number) => noted.push(id),
        }
        readAnswers(writer.end(), take)
        readAnswers(noteMessage(held), take)
        return t.same(answers, given) && t.same(noted, held)
      },
    ),
  )
})

t.test('what is cut or says that it is longer than it is is refused', async (t) => {
  const writer = new CallWriter(7)
  writer.add(1, 2, 'target', 'start', Buffer.from('body'))
  const message = Buffer.from(writer.end())
  for (let length = 5; length < message.length; length++)
    t.throws(() => readCalls(message.subarray(0, length)), RangeError)
  message.writeUInt32LE(1000, 4 + 18)
  t.throws(() => readCalls(message), RangeError)
  t.equal(batchOf(Buffer.alloc(3)), null)
})

t.test('a reply that is none is a failure of ours', async (t) => {
  t.match(readReplyHead(''), { status: 200, headers: { 'content-type': 'application/json' } })
  t.same(readReplyHead('{"status":201,"headers":{"a":"b"}}'), { status: 201, headers: { a: 'b' } })
  t.match(readReplyHead('{"status":500,"fault":{"code":"timeout","message":""}}'), { fault: { code: 'timeout' } })
  const garbled = [
    '{',
    '1',
    'null',
    '{"status":99}',
    '{"status":"200"}',
    '{"status":200,"headers":1}',
    '{"fault":{"code":"x"}}',
  ]
  for (const head of garbled) t.match(readReplyHead(head), { status: 500, fault: { code: 'internal' } }, head)
})
