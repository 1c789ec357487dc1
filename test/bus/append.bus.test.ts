import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { Type } from 'typebox'
import { AppendConflict, append } from '../../bus/append.ts'
import { appendBatch } from '../../bus/batch.ts'
import { type Bus, BusUnavailable, connectBus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load, readMessage } from '../../bus/load.ts'
import { type Aggregate, defineEvent, defineEvents, type FactOf, newId } from '../../bus/message.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { testNats } from '../support/servers.ts'

const Added = defineEvent('test.sum.added', Type.Object({ n: Type.Integer(), note: Type.Optional(Type.String()) }))
type Added = FactOf<typeof Added>
interface Sum {
  readonly total: number
  readonly note?: string
}
const sum: Aggregate<Sum, Added> = {
  events: defineEvents(Added),
  initial: { total: 0 },
  evolve: (state, { data: { n, note } }) => ({ ...state, total: state.total + n, ...(note !== undefined && { note }) }),
}
const { events } = sum
const stream = 'EVT_WORKFLOWS'
const subjectOf = (id: string) => eventSubject('workflows', 'sum', id)
const add = (n: number, id = newId()) => ({ id, facts: [Added.of({ n })] })

async function started(t: Parameters<typeof testNats>[0], options: { syncInterval?: string; timeoutMs?: number } = {}) {
  const server = await testNats(t, options)
  const bus = await connectBus({ url: server.url, name: 'test', timeoutMs: options.timeoutMs ?? 5_000 })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  return { server, bus }
}

async function stored(bus: Bus, subject: string): Promise<number[]> {
  const numbers: number[] = []
  const { state } = await bus.manager.streams.info(stream, { subjects_filter: subject })
  if ((state.subjects?.[subject] ?? 0) === 0) return numbers
  for await (const message of await bus.manager.direct.getBatch(stream, {
    seq: 1,
    next_by_subj: subject,
    batch: 1000,
  })) {
    for (const fact of (await readMessage(bus, events, message)).facts) numbers.push(fact.data.n)
  }
  return numbers
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await what())) await sleep(10)
}

t.test('on a running bus', async (t) => {
  const { server, bus } = await started(t)

  t.test('an append states what it saw; who saw less is told where the subject is', async (t) => {
    const place = { stream, subject: subjectOf('conflict') }
    const first = await append(bus, { ...place, expectedSequence: 0, events, message: add(1) })
    const second = await append(bus, { ...place, expectedSequence: first.sequence, events, message: add(2) })
    const late = append(bus, { ...place, expectedSequence: first.sequence, events, message: add(3) })
    await t.rejects(late, { name: 'AppendConflict', expectedSequence: first.sequence, lastSequence: second.sequence })
    await t.rejects(append(bus, { ...place, expectedSequence: 0, events, message: add(3) }), AppendConflict)
    t.same(await stored(bus, place.subject), [1, 2])
  })

  t.test('the same decision again is stored once and answers the same', async (t) => {
    const place = { stream, subject: subjectOf('again') }
    const request = { ...place, expectedSequence: 0, events, message: add(1) }
    const first = await append(bus, request)
    t.same(await append(bus, request), { ...first, found: true })
    const { sequence } = await append(bus, { ...place, expectedSequence: first.sequence, events, message: add(2) })
    // Also when the subject has gone on in between.
    t.same(await append(bus, request), { ...first, found: true })
    const known = { ...request, expectedSequence: sequence }
    t.same(await append(bus, known), { sequence, duplicate: true, found: true })
    t.same(await stored(bus, place.subject), [1, 2])
    const elsewhere = append(bus, { ...request, subject: subjectOf('elsewhere') })
    await t.rejects(elsewhere, /is taken by evt\.workflows\.sum\.again/)
  })

  t.test('what is likely new is decided unseen, and what is there after all is what counts', async (t) => {
    const place = { stream, subject: subjectOf('likely-new') }
    const start = (n: number) =>
      decide(bus, {
        ...place,
        aggregate: sum,
        id: 'start',
        likelyNew: true,
        decide: ({ total }) => (total === 0 ? [Added.of({ n })] : []),
      })
    const first = await start(1)
    t.match(first, { state: { total: 1 }, facts: [{ data: { n: 1 } }] })
    t.same(await start(2), { ...first, facts: [] }, 'not the one that was asked for second')
    await decide(bus, { ...place, aggregate: sum, decide: () => [Added.of({ n: 5 })] })
    t.match(await start(3), { state: { total: 6 }, facts: [] })
    t.same(await stored(bus, place.subject), [1, 5])
  })

  t.test('loading is the state that the last message carries, or all facts folded', async (t) => {
    const place = { stream, subject: subjectOf('load') }
    t.match(await load(bus, sum, place), { state: { total: 0 }, sequence: 0, id: null })
    let sequence = 0
    for (let n = 1; n <= 300; n++) {
      ;({ sequence } = await append(bus, { ...place, expectedSequence: sequence, events, message: add(n) }))
    }
    t.same((await load(bus, sum, place)).state, { total: 45_150 })
    const decided = await decide(bus, { ...place, aggregate: sum, id: 'seen', decide: () => [Added.of({ n: 1 })] })
    t.match(await load(bus, sum, place), { state: { total: 45_151 }, sequence: decided.sequence, id: 'seen' })
    const changed = { ...sum, stateVersion: 2, evolve: ({ total }: Sum) => ({ total: total + 1 }) }
    t.same((await load(bus, changed, place)).state, { total: 301 }, 'a state of another version is not believed')
  })

  t.test('a large state is folded instead of carried', async (t) => {
    const place = { stream, subject: subjectOf('large-state') }
    const note = 'x'.repeat(20_000)
    await decide(bus, { ...place, aggregate: sum, decide: () => [Added.of({ n: 1, note })] })
    await decide(bus, { ...place, aggregate: sum, decide: ({ total }) => [Added.of({ n: total })] })
    const { state } = await load(bus, sum, place)
    t.equal(state.total, 2)
    t.ok(state.note === note)
    const last = await bus.manager.direct.getMessage(stream, { last_by_subj: place.subject })
    t.same(Object.keys(last!.json<object>()), ['facts'])
  })

  t.test('a large state is carried now and then, and what is known already is not read again', async (t) => {
    const place = { stream, subject: subjectOf('growing-state') }
    // Whoever folds what it has folded before is found out.
    const read: number[] = []
    const list: Aggregate<{ readonly notes: readonly string[] }, Added> = {
      events,
      initial: { notes: [] },
      evolve: ({ notes }, { data }) => {
        read.push(data.n)
        return { notes: [...notes, data.note ?? ''] }
      },
    }
    const note = 'x'.repeat(1_000)
    for (let n = 1; n <= 150; n++) {
      await decide(bus, { ...place, aggregate: list, decide: () => [Added.of({ n, note })] })
    }
    read.length = 0
    const loaded = await load(bus, list, place)
    t.equal(loaded.state.notes.length, 150)
    t.ok(loaded.trail.base > 0 && read.length < 150, 'not from the beginning')
    t.same(
      read,
      Array.from({ length: read.length }, (_, i) => 150 - read.length + i + 1),
    )
    const next = await decide(bus, { ...place, aggregate: list, decide: () => [Added.of({ n: 151, note })] })
    read.length = 0
    const after = await load(bus, list, place, loaded)
    t.same([after.sequence, after.state.notes.length, read], [next.sequence, 151, [151]])
    t.equal(await load(bus, list, place, after), after)
    const newer = { ...list, stateVersion: 2 }
    t.equal((await load(bus, newer, place)).state.notes.length, 151, 'a state of another version is not believed')
  })

  t.test('many who decide at once lose nothing', async (t) => {
    const place = { stream, subject: subjectOf('race') }
    const one = () => decide(bus, { ...place, aggregate: sum, retries: 100, decide: () => [Added.of({ n: 1 })] })
    await Promise.all(Array.from({ length: 20 }, one))
    t.same((await load(bus, sum, place)).state, { total: 20 })
    t.equal((await stored(bus, place.subject)).length, 20)
  })

  t.test('a decision with the id of its cause is taken once; a refusal and no facts store nothing', async (t) => {
    const place = { stream, subject: subjectOf('once') }
    let asked = 0
    const decision = { ...place, aggregate: sum, id: 'cause/added', decide: () => [Added.of({ n: ++asked * 5 })] }
    const first = await decide(bus, decision)
    t.same(first.facts, [Added.of({ n: 5 })])
    t.same(await decide(bus, decision), { ...first, facts: [] })
    t.equal(asked, 1)
    const none = await decide(bus, { ...place, aggregate: sum, decide: () => [] })
    t.match(none, { state: { total: 5 }, sequence: first.sequence, facts: [] })
    const no = new Error('no')
    const refused = decide(bus, {
      ...place,
      aggregate: sum,
      decide: () => {
        throw no
      },
    })
    await t.rejects(refused, no)
    // An older id is known too; what is decided under it now is not stored.
    await decide(bus, { ...place, aggregate: sum, decide: () => [Added.of({ n: 1 })] })
    t.match(await decide(bus, decision), { state: { total: 6 }, facts: [] })
    t.same(await stored(bus, place.subject), [5, 1])
  })

  t.test('a batch stores all its decisions or none', async (t) => {
    const [a, b, c] = ['a', 'b', 'c'].map((id) => subjectOf(`batch-${id}`)) as [string, string, string]
    const entry = (subject: string, n: number, expectedSequence = 0, id = newId()) => ({
      stream,
      subject,
      expectedSequence,
      events,
      message: add(n, id),
    })
    await appendBatch(bus, [entry(a, 1), entry(b, 2), entry(c, 3, 0, 'the-third')])
    t.same([await stored(bus, a), await stored(bus, b), await stored(bus, c)], [[1], [2], [3]])
    const seen = (await load(bus, sum, { stream, subject: a })).sequence
    const before = (await bus.manager.streams.info(stream)).state.last_seq
    const conflicting = appendBatch(bus, [entry(a, 4, seen), entry(b, 5), entry(subjectOf('batch-new'), 6)])
    await t.rejects(conflicting, { name: 'AppendConflict', subject: b, expectedSequence: 0 })
    const taken = appendBatch(bus, [entry(a, 4, seen), entry(subjectOf('batch-new'), 6, 0, 'the-third')])
    await t.rejects(taken)
    t.equal((await bus.manager.streams.info(stream)).state.last_seq, before)
    // The same batch again is no conflict: it is stored.
    const request = [entry(subjectOf('batch-d'), 7), entry(subjectOf('batch-e'), 8)]
    await appendBatch(bus, request)
    await appendBatch(bus, request)
    t.same(await stored(bus, subjectOf('batch-e')), [8])
    await t.rejects(appendBatch(bus, []), TypeError)
    await t.rejects(appendBatch(bus, [entry(a, 1), entry(a, 2)]), /one decision a subject/)
    await t.rejects(appendBatch(bus, [entry(a, 1), { ...entry(b, 2), stream: 'EVT_FUNCTIONS' }]), /one stream/)
  })

  t.test('a large body lies in the object store and comes back unseen', async (t) => {
    const place = { stream, subject: subjectOf('object') }
    const note = 'é'.repeat(300_000)
    const message = { id: newId(), facts: [Added.of({ n: 1, note })], actor: 'me' }
    await append(bus, { ...place, expectedSequence: 0, events, message })
    const raw = await bus.manager.direct.getMessage(stream, { last_by_subj: place.subject })
    t.equal(raw!.data.length, 0)
    t.match(raw!.header.get('Busbar-Object'), /^sha256:[0-9a-f]{64};6\d{5}$/)
    t.ok(isDeepStrictEqual(await readMessage(bus, events, raw!), message))
    t.ok(isDeepStrictEqual((await load(bus, sum, place)).state, { total: 1, note }))
    // The same body again needs no second object.
    const objects = (await bus.manager.streams.info('OBJ_bodies')).state.messages
    await append(bus, {
      ...place,
      subject: subjectOf('object-2'),
      expectedSequence: 0,
      events,
      message: { ...message, id: newId() },
    })
    t.equal((await bus.manager.streams.info('OBJ_bodies')).state.messages, objects)
  })

  t.test('a body that is broken, cut or gone is said to be', async (t) => {
    const impatient = await connectBus({ url: server.url, name: 'test', timeoutMs: 500 })
    t.teardown(() => impatient.close())
    const place = { stream, subject: subjectOf('damaged') }
    const message = { id: newId(), facts: [Added.of({ n: 1, note: 'y'.repeat(300_000) })] }
    await append(bus, { ...place, expectedSequence: 0, events, message })
    const digest = /sha256:(\w+)/.exec(
      (await bus.manager.direct.getMessage(stream, { last_by_subj: place.subject }))!.header.get('Busbar-Object'),
    )![1]!
    const { Objm } = await import('@nats-io/obj')
    const store = await new Objm(bus.jetstream).open('bodies')
    const whole = await store.getBlob(digest)
    const purge = async () => {
      const info = await store.info(digest)
      await bus.manager.streams.purge('OBJ_bodies', { filter: `$O.bodies.C.${info!.nuid}` })
    }
    await purge()
    const loading = load(impatient, sum, place)
    await sleep(100)
    await store.putBlob({ name: digest }, whole!)
    t.ok((await loading).state, 'what did not come is asked for once more')
    await store.putBlob({ name: digest }, Buffer.from('other'))
    await t.rejects(load(bus, sum, place), {
      name: 'ObjectDamaged',
      message: new RegExp(`${digest} is not what was stored`),
    })
    await purge()
    await t.rejects(load(impatient, sum, place), { name: 'ObjectDamaged', message: /missing in part/ })
    await store.delete(digest)
    await t.rejects(load(bus, sum, place), { name: 'ObjectDamaged', message: new RegExp(`${digest} is missing`) })
  })
})

t.test('a server that is held up answers nothing, and what was sent is stored once', async (t) => {
  const { server, bus } = await started(t, { timeoutMs: 900 })
  const place = { stream, subject: subjectOf('held') }
  const { sequence } = await append(bus, { ...place, expectedSequence: 0, events, message: add(1) })
  void server.kill('SIGSTOP')
  // Each of its threads stops when it is next to run.
  await sleep(100)
  const request = { ...place, expectedSequence: sequence, events, message: add(2) }
  await t.rejects(append(bus, request), { name: 'BusUnavailable', message: /whether it took .* is not known/ })
  void server.kill('SIGCONT')
  // Three copies of it were in the server's socket; the caller tries once more.
  await append(bus, request)
  t.same(await stored(bus, place.subject), [1, 2])
  void server.kill('SIGSTOP')
  const held = append(bus, { ...place, expectedSequence: sequence + 1, events, message: add(3) })
  await sleep(450)
  void server.kill('SIGCONT')
  t.match(await held, { sequence: sequence + 2, duplicate: false })
  t.same(await stored(bus, place.subject), [1, 2, 3])
})

t.test('what was asked of a server that dies is known at once, and what is to be stored waits for it', async (t) => {
  // No test lasts for as long as an answer may take.
  const { server, bus } = await started(t, { timeoutMs: 600_000 })
  const place = { stream, subject: subjectOf('dies') }
  const { sequence } = await append(bus, { ...place, expectedSequence: 0, events, message: add(1) })
  void server.kill('SIGSTOP')
  // Each of its threads stops when it is next to run.
  await sleep(100)
  const loading = t.rejects(load(bus, sum, place), { name: 'BusUnavailable', message: /gone away/ })
  const appending = append(bus, { ...place, expectedSequence: sequence, events, message: add(2) })
  await server.kill('SIGKILL')
  await loading
  await server.restart()
  t.match(await appending, { duplicate: false })
  t.same(await stored(bus, place.subject), [1, 2])
})

t.test('a killed server loses nothing that it acknowledged, and refuses while it is away', async (t) => {
  const { server, bus } = await started(t, { syncInterval: 'always', timeoutMs: 600 })
  const subjects = Array.from({ length: 8 }, (_, index) => subjectOf(`kill-${index}`))
  const acknowledged = new Map<string, number[]>(subjects.map((subject) => [subject, []]))
  const refused: unknown[] = []
  let stopped = false
  const write = async (subject: string) => {
    for (let n = 1; !stopped; n++) {
      // What was refused may be stored all the same; the id of the decision says so to the next try.
      while (!(await tried(subject, n))) await sleep(20)
      acknowledged.get(subject)!.push(n)
    }
  }
  const tried = async (subject: string, n: number) => {
    try {
      await decide(bus, { stream, subject, aggregate: sum, id: `${subject}/${n}`, decide: () => [Added.of({ n })] })
      return true
    } catch (error) {
      refused.push(error)
      return false
    }
  }
  const writers = subjects.map(write)
  for (let kills = 1; kills <= 3; kills++) {
    const goal = [...acknowledged.values()].reduce((all, { length }) => all + length, 0) + 100
    await until(() => [...acknowledged.values()].reduce((all, { length }) => all + length, 0) >= goal)
    const refusals = refused.length
    await server.kill('SIGKILL')
    await until(() => refused.length > refusals)
    await server.restart()
  }
  await until(() => bus.connected)
  stopped = true
  await Promise.all(writers)
  for (const subject of subjects) {
    t.same(await stored(bus, subject), acknowledged.get(subject), 'each acknowledged decision once, in order')
  }
  const strange = refused.filter((error) => !(error instanceof BusUnavailable))
  t.same(strange, [], 'nothing but BusUnavailable was thrown')
  await server.kill('SIGKILL')
  await until(() => !bus.connected)
  const place = { stream, subject: subjects[0]! }
  await t.rejects(append(bus, { ...place, expectedSequence: 0, events, message: add(1) }), { name: 'BusUnavailable' })
  await t.rejects(load(bus, sum, place), { name: 'BusUnavailable' })
  await t.rejects(appendBatch(bus, [{ ...place, expectedSequence: 0, events, message: add(1) }]), {
    name: 'BusUnavailable',
  })
})
