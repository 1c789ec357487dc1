import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { compile } from '../../gateways/functions/compile.ts'
import { hostReadable } from '../../workers/functions/host-process.ts'
import { mapStack } from '../../workers/functions/stack.ts'
import { pause, stage, type Told, until } from './hosts-support.ts'

t.setTimeout(120_000)

const answers: readonly (readonly [string, string, unknown, Partial<Told>])[] = [
  ['a value', 'export const handler = (data) => data', { a: [1, 'é'] }, { status: 200, value: { a: [1, 'é'] } }],
  ['a promise', 'export async function handler({ a }) { return a + 1 }', { a: 1 }, { status: 200, value: 2 }],
  ['nothing', 'function handler() {}', {}, { status: 204, value: undefined }],
  [
    'a response',
    'exports.handler = () => ({ status: 201, body: { ok: true } })',
    {},
    { status: 201, value: { ok: true } },
  ],
  [
    'a later answer',
    'export const handler = () => new Promise((r) => setTimeout(r, 20, "late"))',
    {},
    { value: 'late' },
  ],
  [
    'an interval',
    `export const handler = () => new Promise((done) => {
     let n = 0; const id = setInterval(() => { if (++n === 3) { clearInterval(id); done(n) } }, 5) })`,
    {},
    { value: 3 },
  ],
  [
    'its store',
    'export async function handler(d, { kv }) { await kv.put("k", d); return await kv.get("k") }',
    [7],
    { value: [7] },
  ],
  [
    'a host operation that fails',
    `export async function handler() {
     try { await fetch("http://example.com/") } catch (error) { return error.message } }`,
    {},
    { value: 'There is no network here' },
  ],
  ['no handler', 'export const other = 1', {}, { code: 'no-handler' }],
  ['a class', 'export default class {}', {}, { code: 'no-handler' }],
  ['a cycle', 'export function handler() { const a = {}; a.a = a; return a }', {}, { code: 'unserialisable' }],
  ['too much', 'export const handler = () => "x".repeat(7e6)', {}, { code: 'output-too-large' }],
  [
    'too many bytes of headers',
    `export const handler = () => ({ status: 200, body: 1, headers:
      Object.fromEntries(Array.from({ length: 20 }, (_, n) => ["x-" + n, "v".repeat(8000)])) })`,
    {},
    { code: 'output-too-large', message: 'The response headers are larger than 16384 bytes' },
  ],
  [
    'too many bytes of headers in a Response',
    'export const handler = () => new Response("x", { headers: { "x-1": "v".repeat(8000), "x-2": "v".repeat(9000) } })',
    {},
    { code: 'output-too-large' },
  ],
  [
    'a broken top level',
    'throw new Error("at the top"); export const handler = () => 1',
    {},
    { code: 'threw', message: 'at the top' },
  ],
  [
    'a rejection nobody handles',
    'export const handler = () => { Promise.reject(new Error("stray")); return 5 }',
    {},
    { value: 5 },
  ],
]

t.test('a function answers', async (t) => {
  const { deploy, call } = await stage(t)
  for (const [index, [name, source, body, expected]] of answers.entries()) {
    await deploy(`f${index}`, source)
    for (const time of ['first', 'again']) t.match(await call(`f${index}`, body), expected, `${name}, ${time}`)
  }
})

t.test('a program that cannot be read is no fault of the function', async (t) => {
  const { call } = await stage(t, { hosts: 1 })
  t.match(await call('missing'), { code: 'internal', started: false, message: /could not be read/ })
})

t.test('a program that the engine does not take is told at once', async (t) => {
  const { hosts } = await stage(t, { hosts: 1 })
  const program = async () => ({ code: 'const handler = () => /(/', sourceMap: null, env: {} })
  const call = { functionId: 'f', revision: 1, invocationId: 'a', envVersion: 0, program, body: Buffer.from('{}') }
  const replies = await Promise.all([1, 2].map(() => hosts.invoke({ ...call, start: '{}', timeoutMs: 60_000 })))
  for (const reply of replies) t.match(reply, { kind: 'fault', code: 'threw', message: /Unterminated group/ })
})

t.test('a thrown error has the stack of the source, and nothing of the host', async (t) => {
  const { deploy, call } = await stage(t)
  await deploy(
    'f',
    'interface Data { a: number }\n\nfunction inner(data: Data): never {\n  throw new TypeError(`no ${data.a}`)\n}\nexport const handler = async (data: Data) => {\n  await null\n  inner(data)\n}',
  )
  const { code, message, stack } = await call('f', { a: 4 })
  t.equal(code, 'threw')
  t.equal(message, 'no 4')
  t.match(stack, /^TypeError: no 4\n {4}at inner \(function[.]ts:4:9\)\n {4}at .*function[.]ts:8:3\)?$/)
})

t.test('errors of large functions do not keep the worker busy with their source maps', async (t) => {
  const source = (name: string) => `export function ${name}() { throw new Error() }\n${'a = b;'.repeat(20_000)}`
  const one = (await compile(source('one'))).sourceMap
  const other = (await compile(source('other'))).sourceMap
  const stack = 'Error\n    at one (function.js:40:9)'
  const seen = [one, other, one].map((map) => /function[.]ts/.test(mapStack(stack, map)))
  t.same(seen, [true, false, true], 'one is read at once, the other not so soon behind it; what was read is kept')
  t.match(
    mapStack(stack, (await compile('\n\nexport const f = 1')).sourceMap),
    /function[.]ts/,
    'a small one always is',
  )
})

t.test('calls of one function overlap while they wait, and not while their code runs', async (t) => {
  const { deploy, call } = await stage(t)
  await deploy(
    'f',
    `let open = 0, most = 0, inside = 0
    export async function handler() {
      if (inside++) throw new Error("entered twice"); most = Math.max(most, ++open); inside--
      await new Promise((r) => setTimeout(r, 50)); open--; return most }`,
  )
  const replies = await Promise.all(Array.from({ length: 30 }, () => call('f')))
  t.ok(replies.every(({ status }) => status === 200))
  t.ok(Math.max(...replies.map(({ value }) => Number(value))) > 10)
})

t.test('a new revision answers at once, and the calls of the old one end in it', async (t) => {
  const { deploy, call, hosts } = await stage(t, { hosts: 1 })
  await deploy('f', 'export const handler = () => new Promise((r) => setTimeout(r, 400, "old"))')
  const old = call('f')
  await pause(100)
  await deploy('f', 'export const handler = () => "new"')
  t.match(await call('f'), { value: 'new' })
  t.match(await old, { value: 'old' })
  await until('the old isolate ends', () => hosts.stats().isolates === 1)
  hosts.dispose('f')
  await until('the last isolate ends', () => hosts.stats().isolates === 0)
})

t.test('isolates that nobody uses make room', async (t) => {
  const { deploy, call, hosts } = await stage(t, { hosts: 1, maxIsolates: 3, idleMs: 1_500 })
  for (let n = 0; n < 8; n++) await deploy(`f${n}`, 'let n = 0; export const handler = () => ++n')
  for (let n = 0; n < 8; n++) t.match(await call(`f${n}`), { value: 1 })
  t.match(await call('f7'), { value: 2 }, 'the last one is warm')
  t.match(await call('f0'), { value: 1 }, 'the first one begins anew')
  await until('they are counted', () => hosts.stats().isolates > 0)
  await until('all are idle too long', () => hosts.stats().isolates === 0)
  t.match(await call('f7'), { value: 1 })
})

t.test(
  'the time-out ends code that runs, waits or comes back, and neighbours in the same process do not feel it',
  async (t) => {
    const { deploy, call } = await stage(t, { hosts: 1 })
    const hangs = {
      loop: 'export function handler() { for (;;); }',
      never: 'export const handler = () => new Promise(() => {})',
      later: 'export async function handler() { await new Promise((r) => setTimeout(r, 20)); for (;;); }',
      microtasks: 'export async function handler() { for (;;) await null }',
      top: 'for (;;); export const handler = () => 1',
      thenable: 'export const handler = () => ({ then() {} })',
    }
    await deploy('good', 'export const handler = (n) => n')
    for (const [name, source] of Object.entries(hangs)) await deploy(name, source)
    const hanging = Object.keys(hangs).map(async (name) => [name, await call(name, {}, { timeoutMs: 1_500 })] as const)
    let stop = false
    const wrong: Told[] = []
    const good = (async () => {
      for (let n = 0; !stop; n++) {
        const reply = await call('good', n)
        if (reply.value !== n) wrong.push(reply)
      }
    })()
    for (const [name, reply] of await Promise.all(hanging)) {
      // On a machine that is busy with other things one may not have begun.
      t.match(reply, { code: 'timeout', message: 'Execution timeout' }, name)
      t.ok(reply.durationMs >= 1_490, `${name} had its time`)
    }
    stop = true
    await good
    t.same(wrong, [])
  },
)

t.test('a quick function that is slow for once keeps its time, and what it did is done once', async (t) => {
  const { deploy, call, puts, logs } = await stage(t, { hosts: 1 })
  await deploy(
    'f',
    `export function handler(slow, { kv, waitUntil }) {
    if (!slow) return "quick"
    console.log("slow"); waitUntil(kv.put("k", 1))
    const end = Date.now() + 400; while (Date.now() < end); return "slow" }`,
  )
  for (let n = 0; n < 60; n++) t.match(await call('f', false), { value: 'quick' })
  t.match(await call('f', true), { value: 'slow' })
  t.match(await call('f', false), { value: 'quick' })
  await until('its line', () => logs.length > 0)
  t.same(puts, ['k'])
  t.same(
    logs.map(({ text }) => text),
    ['slow'],
  )
})

t.test('processor time has a limit of its own', async (t) => {
  const { deploy, call } = await stage(t, { hosts: 1, cpuLimitMs: 300 })
  await deploy('busy', 'export function handler() { for (;;); }')
  await deploy('patient', 'export const handler = () => new Promise((r) => setTimeout(r, 800, "slept"))')
  const [busy, patient] = await Promise.all([call('busy'), call('patient')])
  t.match(busy, { code: 'timeout' })
  t.ok(busy.durationMs < 5_000)
  t.match(patient, { value: 'slept' })
})

t.test('calls that enter an isolate together each come to their own end', async (t) => {
  const { deploy, call, hosts, logs } = await stage(t, { hosts: 1 })
  const code = `export function handler({ n, does }) { console.log(n)
    if (does === 'throws') throw new Error('no ' + n)
    if (does === 'loops') while (true) {}
    if (does === 'hogs') { const all = []; while (true) all.push(new Array(100_000).fill(n)) }
    if (does === 'rejects') Promise.reject(new Error('nobody looks'))
    return n }`
  const numbers = Array.from({ length: 24 }, (_, n) => n)
  const many = (id: string, does: Readonly<Record<number, string>>) =>
    // Those behind one that loops wait for it, and have time left when it ends.
    Promise.all(
      numbers.map((n) => call(id, { n, does: does[n] ?? '' }, { timeoutMs: does[n] === 'loops' ? 3_000 : 20_000 })),
    )
  const ends: readonly [string, Readonly<Record<number, string>>, object][] = [
    ['throws', { 3: 'throws', 9: 'rejects' }, { 3: { code: 'threw', message: 'no 3' } }],
    ['loops', { 5: 'loops' }, { 5: { code: 'timeout' } }],
    ['hogs', { 5: 'hogs' }, { 5: { code: 'memory' } }],
  ]
  for (const [id, does, bad] of ends) {
    await deploy(id, code)
    // Trusted from here on.
    await many(id, {})
    await until('their lines', () => logs.length === numbers.length)
    logs.length = 0
    const told = await many(id, does)
    t.match(told, bad, id)
    const others = numbers.filter((n) => !(n in bad))
    t.same(others.map((n) => told[n]!.value), others, 'the others have their results') // biome-ignore format: one line
    const lines = () => logs.flatMap(({ text }) => (/^\d+$/.test(text) ? [Number(text)] : [])).sort((a, b) => a - b)
    await until('the lines', () => lines().length >= others.length)
    t.ok(new Set(lines()).size === lines().length, `and what they wrote is there once: ${lines()}`)
    logs.length = 0
  }
  t.equal(hosts.stats().deaths, 0)
})

t.test('more calls of a function than may run are refused, and another function is not', async (t) => {
  const { deploy, call } = await stage(t, { maxConcurrentPerFunction: 5 })
  await deploy('f', 'export const handler = () => new Promise((r) => setTimeout(r, 300, 1))')
  await deploy('g', 'export const handler = () => 2')
  const calls = Array.from({ length: 8 }, () => call('f'))
  t.match(await call('g'), { value: 2 })
  const replies = await Promise.all(calls)
  t.equal(replies.filter(({ value }) => value === 1).length, 5)
  t.equal(replies.filter(({ code, started }) => code === 'too-many-calls' && started === false).length, 3)
  t.match(await call('f'), { value: 1 })
})

t.test('a host that is killed takes only calls with it of which nobody knows what they did outside', async (t) => {
  const sent: string[] = []
  const fetch = async (_fn: string, _name: string, argument: string) => {
    sent.push(argument)
    return '={"url":"http://example.com/","redirected":false,"status":200,"statusText":"","headers":[]}\n'
  }
  const { deploy, call, hosts, puts, observations } = await stage(t, { hosts: 1, fetch })
  await deploy('pure', 'export const handler = async (n) => { await new Promise((r) => setTimeout(r, 5)); return n }')
  const waits = 'await new Promise((r) => setTimeout(r, 1_000)); return n }'
  await deploy('put', `export async function handler(n, { kv }) { await kv.put("p" + n, n); ${waits}`)
  await deploy('sends', `export async function handler(n) { await fetch("http://example.com/"); ${waits}`)
  await call('pure')
  const [victim = 0] = hosts.stats().pids
  const written = [call('put', 1), call('put', 3)]
  const requested = [call('sends', 1), call('sends', 3)]
  await until('what they do', () => puts.length === 2 && sent.length === 2)
  const load = Array.from({ length: 200 }, (_, n) => call('pure', n))
  process.kill(victim, 'SIGKILL')
  for (const each of requested) t.match(await each, { code: 'host-died', started: true }, 'whose request was it?')
  t.same(
    (await Promise.all([...load, ...written])).map(({ value }) => value),
    [...Array.from({ length: 200 }, (_, n) => n), 1, 3],
  )
  t.same([puts, sent.length], [['p1', 'p3'], 2], 'nothing was done twice')
  t.match(observations, [{ type: 'host-ended', functionId: null, failed: 2 }])
  t.match(await call('put', 2), { value: 2 }, 'and it may run again')
  t.equal(hosts.stats().deaths, 1)
})

t.test('a call that runs again does nothing twice outside, and nothing else than before', async (t) => {
  const { deploy, call, hosts, puts } = await stage(t, { hosts: 1 })
  await deploy(
    'same',
    `export async function handler(n, { kv }) {
    const before = (await kv.get("n")) ?? 0; await kv.put("n", before + 1)
    await new Promise((r) => setTimeout(r, 600)); await kv.put("end", 1); return [before, await kv.get("n")] }`,
  )
  await deploy(
    'other',
    `export async function handler(n, { kv }) {
    await kv.put("at-" + Math.random(), 1); await new Promise((r) => setTimeout(r, 600)); return 1 }`,
  )
  const same = call('same')
  const other = call('other')
  await until('both puts', () => puts.length === 2)
  process.kill(hosts.stats().pids[0]!, 'SIGKILL')
  t.match(await other, { code: 'host-died', started: true })
  t.match(await same, { value: [0, 1] })
  t.same(
    puts.filter((key) => !key.startsWith('at-')),
    ['n', 'end'],
  )
  t.equal(puts.length, 3)
})

t.test('a call that runs again does nothing twice outside although others of its function came to it', async (t) => {
  const sent: string[] = []
  const fetch = async (_fn: string, _name: string, argument: string) => {
    sent.push(JSON.parse(argument.split('\n')[0]!).url)
    return '={"url":"http://example.com/","redirected":false,"status":200,"statusText":"","headers":[]}\n'
  }
  const { deploy, call, hosts, logs } = await stage(t, { hosts: 1, fetch })
  await deploy(
    'f',
    `let calls = 0
    export async function handler(n) {
    calls++; await new Promise((r) => setTimeout(r, 100)); await fetch("http://example.com/" + n)
    await new Promise((r) => setTimeout(r, 600)); return [n, calls] }`,
  )
  await deploy(
    'changes',
    `export async function handler(n) { for (let tries = 0; tries < 2; tries++) try {
    await fetch("http://example.com/" + Math.random()); await new Promise((r) => setTimeout(r, 600)) }
    catch (error) { console.log(error.message) } }`,
  )
  const first = [call('f', 1), call('changes')]
  await until('their requests', () => sent.length === 2)
  process.kill(hosts.stats().pids[0]!, 'SIGKILL')
  const later = [call('f', 2), call('f', 3)]
  t.match(await first[0], { value: [1, 1] }, 'it has the isolate for itself')
  t.match(await first[1], { code: 'host-died', started: true })
  for (const each of later) t.match(await each, { value: [Number, 2] })
  t.same(sent.filter((url) => /\d$/.test(url) && !url.includes('0.')).sort(), [1, 2, 3].map((n) => `http://example.com/${n}`)) // biome-ignore format: one line
  await until('the call that is over to be told', () => logs.length === 2)
  t.match(logs, [{ text: 'The call is over' }, { text: 'The call is over' }])
  t.equal(sent.length, 4, 'nor does what is over do anything')
  await until('its isolate to end', () => hosts.stats().isolates === 1)
})

t.test('answers are kept for a call that runs again up to a size, and beyond it the call does not', async (t) => {
  const sent = new Map<string, number>()
  const head = '={"url":"http://e/","redirected":false,"status":200,"statusText":"","headers":[]}\n'
  const fetch = async (fn: string) => {
    const count = (sent.get(fn) ?? 0) + 1
    sent.set(fn, count)
    return head + Buffer.alloc(fn === 'small' ? 1_000 : 6_000_000, 65 + count).toString('latin1')
  }
  const { deploy, call, hosts } = await stage(t, { hosts: 1, fetch })
  const code = `export async function handler() {
    for (let n = 0; n < 30; n++) await (await fetch("http://e/" + n)).text()
    await new Promise((r) => setTimeout(r, 1_500)); return 1 }`
  for (const id of ['small', 'large']) await deploy(id, code)
  const calls = [call('small'), call('large')]
  await until('all requests', () => sent.get('small') === 30 && sent.get('large') === 30)
  await pause(300)
  process.kill(hosts.stats().pids[0]!, 'SIGKILL')
  t.match(await calls[0], { value: 1 })
  t.match(await calls[1], { code: 'host-died', started: true })
  t.same([...sent.values()], [30, 30], 'nothing was sent again')
})

t.test('hosts that are killed again and again lose no call', async (t) => {
  const { deploy, call, hosts } = await stage(t, { hosts: 2 })
  for (let n = 0; n < 6; n++) await deploy(`f${n}`, 'export const handler = async (n) => { await null; return n }')
  const wrong: Told[] = []
  let stop = false
  let answered = 0
  const loops = Array.from({ length: 12 }, async (_, loop) => {
    for (let n = 0; !stop; n++, answered++) {
      const reply = await call(`f${loop % 6}`, n)
      if (reply.value !== n) wrong.push(reply)
    }
  })
  for (let kills = 0; kills < 6; kills++) {
    await pause(500)
    const { pids } = hosts.stats()
    process.kill(pids[kills % 2]!, 'SIGKILL')
  }
  await pause(500)
  stop = true
  await Promise.all(loops)
  t.same(wrong.slice(0, 3), [])
  t.ok(answered > 100)
})

t.test('a host whose memory is over the budget is ended, and the function whose code ran is told', async (t) => {
  const { deploy, call, observations } = await stage(t, { hosts: 1, hostMemoryMb: 160, heapMb: 512 })
  await deploy(
    'hog',
    `export async function handler() {
    const kept = []; for (let n = 0; n < 120; n++) { kept.push(new Uint8Array(2 ** 20).fill(n)); const end = Date.now() + 5; while (Date.now() < end); }
    for (;;); }`,
  )
  await deploy('good', 'export const handler = () => new Promise((r) => setTimeout(r, 300, 1))')
  const good = call('good')
  t.match(await call('hog', {}, { timeoutMs: 8_000 }), { code: 'memory', started: true })
  t.match(await good, { value: 1 })
  t.match(
    observations.filter(({ type }) => type === 'host-ended'),
    [{ reason: 'memory', functionId: 'hog' }],
  )
})

t.test('functions that keep within their limits do not end each other, however much they hold together', async (t) => {
  const { deploy, call, hosts, observations } = await stage(t, { hosts: 1, hostMemoryMb: 420 })
  const holds = `const kept = []
    export async function handler() {
      for (let n = 0; n < 45; n++) kept.push(new Uint8Array(2 ** 20).fill(n))
      await new Promise((resolve) => setTimeout(resolve, 3_000, kept.length)) ; return kept.length }`
  for (let n = 0; n < 12; n++) await deploy(`f${n}`, holds)
  await deploy('good', 'export const handler = (n) => n')
  const holding: Promise<Told>[] = []
  for (let n = 0; n < 12; n++) {
    holding.push(call(`f${n}`))
    t.match(await call('good', n), { value: n })
    await pause(150)
  }
  for (const reply of await Promise.all(holding)) t.match(reply, { value: 45 })
  t.same(
    observations.filter((each) => each.type === 'host-ended' && each.reason === 'memory'),
    [],
  )
  await until('the full hosts are gone', () => hosts.stats().hosts <= 3)
})

t.test('a request that a function gives up is given up at once, and its answer told all the same', async (t) => {
  const given: AbortSignal[] = []
  const fetch = async (_fn: string, _name: string, _argument: string, signal: AbortSignal) => {
    given.push(signal)
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    return '!{"name":"AbortError","message":"The request was given up"}'
  }
  const { deploy, call } = await stage(t, { hosts: 1, fetch })
  await deploy(
    'f',
    `export async function handler() {
    const giveUp = new AbortController()
    const sent = fetch("http://example.com/", { signal: giveUp.signal }).catch(({ name }) => name)
    setTimeout(() => giveUp.abort(), 10)
    return [await sent, await fetch("http://example.com/", { signal: AbortSignal.timeout(5) }).catch(({ name }) => name)] }`,
  )
  t.match(await call('f'), { value: ['AbortError', 'TimeoutError'] })
  await until('both have been given up', () => given.length === 2 && given.every(({ aborted }) => aborted))
  t.match(await call('f'), { status: 200 }, 'the isolate goes on')
})

t.test('what a function sends out is bounded before it leaves the host', async (t) => {
  const sent: string[] = []
  const three = Promise.withResolvers<void>()
  const fetch = async (_fn: string, name: string) => {
    if (sent.push(name) === 3) three.resolve()
    await three.promise
    return '!{"name":"TypeError","message":"no network"}'
  }
  const { deploy, call, puts } = await stage(t, { hosts: 1, heapMb: 256, fetch })
  await deploy(
    'f',
    `export async function handler(data, { kv }) {
    const told = (promise) => promise.then(() => "done", ({ message }) => message)
    const post = (bytes) => told(fetch("http://example.com/", { method: "POST", body: new Uint8Array(bytes) }))
    return [await told(kv.put("k", "x".repeat(2e5))), await told(kv.get("x".repeat(2e5))), await post(7e6), ...await Promise.all([post(5e6), post(5e6), post(5e6), post(5e6)])] }`,
  )
  const tooLarge = 'A key or value is too large'
  const under = 'More than 16777216 bytes of requests are under way'
  const requests = ['fetch failed: The request is too large', 'no network', 'no network', 'no network', under]
  t.same((await call('f')).value, [tooLarge, tooLarge, ...requests])
  t.same([puts, sent], [[], ['fetch', 'fetch', 'fetch']])
})

t.test('a function has so many operations of its store under way, and the others wait', async (t) => {
  let open = 0
  let most = 0
  const get = async () => {
    most = Math.max(most, ++open)
    await pause(5)
    open -= 1
    return '1'
  }
  const none = async () => {}
  const kv = { get, put: none, delete: none, list: async () => ({ keys: [], cursor: null }) }
  const { deploy, call } = await stage(t, { hosts: 1, kv })
  await deploy(
    'f',
    'export const handler = async (_, { kv }) => (await Promise.all(Array.from({ length: 200 }, (_, n) => kv.get("k" + n)))).length',
  )
  t.match(await call('f'), { value: 200 })
  t.equal(most, 32)
})

t.test('a host has no rights, no environment and no files', { skip: process.platform !== 'linux' }, async (t) => {
  const { hosts } = await stage(t, { hosts: 1 })
  for (const pid of hosts.stats().pids) {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    t.match(status, process.getuid?.() === 0 ? /Uid:\s+65534\s+65534\s+65534\s+65534/ : /Uid:/)
    t.match(status, process.getuid?.() === 0 ? /CapEff:\s+0+\n/ : /CapEff:/)
    t.match(status, process.getuid?.() === 0 ? /Groups:\s*\n/ : /Groups:/)
    if (existsSync('/usr/bin/setpriv')) t.match(status, /NoNewPrivs:\s+1/)
    t.equal(readFileSync(`/proc/${pid}/environ`, 'utf8').replaceAll('PWD=/\0', ''), '')
    const limits = readFileSync(`/proc/${pid}/limits`, 'utf8')
    t.match(limits, /Max core file size\s+0/)
    t.match(limits, /Max file size\s+1024/)
  }
})

t.test('a host reads its own program and nothing else of the checkout', (t) => {
  const paths = [
    '.busbar',
    '.git/HEAD',
    'package-lock.json',
    'schemas/config.ts',
    'workers/functions/worker.ts',
    '/etc/passwd',
    '/proc/self/environ',
  ]
  const own = ['package.json', 'workers/functions/host/main.ts']
  const root = resolve(import.meta.dirname, '../..')
  const tried = `console.log(JSON.stringify(${JSON.stringify([...paths, ...own].map((path) => resolve(root, path)))}
    .map((path) => process.permission.has('fs.read', path))))`
  const flags = ['--permission', ...hostReadable().map((path) => `--allow-fs-read=${path}`)]
  // Without what a test runner puts into the environment of all that is started.
  const { stdout } = spawnSync('/usr/bin/env', ['-i', process.execPath, ...flags, '-e', tried], { encoding: 'utf8' })
  t.same(JSON.parse(stdout), [...paths.map(() => false), ...own.map(() => true)])
  t.end()
})

t.test('no process is left when the hosts are stopped, and open calls are answered', async (t) => {
  const { deploy, call, hosts } = await stage(t)
  await deploy('f', 'export const handler = () => new Promise(() => {})')
  const open = call('f')
  await pause(200)
  const { pids } = hosts.stats()
  await hosts.stop()
  t.match(await open, { code: 'host-died' })
  for (const pid of pids) t.notOk(existsSync(`/proc/${pid}`))
  t.match(await call('f'), { code: 'host-died', started: false })
})
