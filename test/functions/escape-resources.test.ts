import t from 'tap'
import { until, withNeighbours } from './hosts-support.ts'

t.setTimeout(280_000)

/** What eats memory, processor, stack, timers or the log; many of these kill the process they run in. */
const attacks: Readonly<Record<string, string>> = {
  'an array of two to the twenty-seventh, filled': 'new Array(2 ** 27).fill(0).length',
  'an array of three hundred million, filled': 'new Array(3e8).fill(1).length',
  'a text split into a quarter of a thousand million': '"ab".repeat(2 ** 27).split("").length',
  'resizable buffers':
    '{ const kept = []; for (;;) { const b = new ArrayBuffer(8, { maxByteLength: 2 ** 28 }); b.resize(2 ** 28); new Uint8Array(b).fill(1); kept.push(b) } }',
  'plain buffers': '{ const kept = []; for (;;) kept.push(new Uint8Array(2 ** 26).fill(1)) }',
  'a sort of three million': 'Array.from({ length: 3e6 }, () => Math.random()).sort().length',
  'a result of half a gigabyte': '"x".repeat(2 ** 29 - 100)',
  'texts that double': '{ let s = "x"; for (;;) s += s }',
  'texts that are kept':
    '{ const kept = []; for (;;) kept.push("x".repeat(2 ** 20) + kept.length, JSON.stringify(kept.at(-1))) }',
  'an array that grows': '{ const kept = []; for (;;) kept.push({}) }',
  'an object with endless keys': '{ const kept = {}; for (let n = 0; ; n++) kept["k" + n] = n }',
  'a map that grows': '{ const kept = new Map(); for (let n = 0; ; n++) kept.set(n, n) }',
  'closures that grow': '{ let f = () => 0; for (;;) { const g = f; f = () => g } }',
  'a number that grows': '{ let n = 3n; for (;;) n *= n }',
  'the digits of a long number': 'String(1n << (2n ** 26n)).length',
  'a regular expression that backtracks': '/^(a+)+$/.test("a".repeat(40) + "b")',
  'a search that never ends':
    '{ const s = "a".repeat(2 ** 24); let n = 0; for (;;) n += s.indexOf(s.slice(0, 2 ** 23) + "b") }',
  'endless recursion': '(function deep() { return deep() + 1 })()',
  'recursion in the parser': 'eval("(".repeat(1e6))',
  'JSON that is deep': 'JSON.parse("[".repeat(1e7))',
  'a rejection whose message never ends': '(Promise.reject({ get message() { for (;;); } }), 1)',
  'a rejected class whose message never ends': '(Promise.reject(class { static get message() { for (;;); } }), 1)',
  'a thrown message that never ends': '{ throw { get message() { for (;;); }, get stack() { for (;;); } } }',
  'a flood of timers': '{ for (let n = 0; n < 1e6; n++) setTimeout(() => {}, 1) }',
  'intervals that never stop':
    '{ for (let n = 0; n < 500; n++) setInterval(() => { for (const end = Date.now() + 20; Date.now() < end; ); }, 1) }',
  'a flood of lines': '{ for (let n = 0; n < 3e5; n++) console.log("line " + n) }',
  'one line of many megabytes': 'console.log("x".repeat(2 ** 26))',
  'a flood of requests': '{ for (let n = 0; n < 1e5; n++) fetch("http://example.com/" + n).catch(() => {}) }',
  'a flood of promises': '(async () => { for (;;) await Promise.all(Array.from({ length: 1e4 }, async () => 1)) })()',
  'a flood of microtasks': '{ const again = () => queueMicrotask(again); again(); return new Promise(() => {}) }',
  'a flood of addresses': '{ for (;;) new URL("http://example.com/" + Math.random()) }',
  'work that is given to waitUntil': '(context.waitUntil(new Promise(() => {})), 1)',
  'an endless async generator':
    '(async () => { async function* all() { for (;;) yield 1 } let sum = 0; for await (const one of all()) sum += one; return sum })()',
}

t.test('a function that takes too much hurts only itself', { timeout: 200_000 }, (t) =>
  withNeighbours(t, async ({ deploy, call, observations }) => {
    for (const [index, [name, body]] of Object.entries(attacks).entries()) {
      const statement = body.startsWith('{') ? body : `{ return ${body} }`
      await deploy(`a${index}`, `export const handler = (data, context) => ${statement}`)
      const reply = await call(`a${index}`, {}, { timeoutMs: 1_500 })
      t.ok(reply.status !== undefined || reply.code !== undefined, `${name}: ${reply.code ?? reply.status}`)
      t.not(reply.code, 'host-died', `${name}: what it did is told`)
      t.ok(reply.durationMs < 6_000, `it was over after ${Math.round(reply.durationMs)} ms`)
    }
    const blamed = observations.flatMap((each) => ('functionId' in each && each.functionId ? [each.functionId] : []))
    t.ok(
      blamed.every((id) => id.startsWith('a')),
      'and nobody else is blamed',
    )
  }),
)

t.test('derivations that take long leave threads for the computations of others', { timeout: 100_000 }, (t) =>
  withNeighbours(t, async ({ deploy, call }) => {
    const derives = (iterations: number, bits: number, count: number) => `export async function handler() {
      const key = await crypto.subtle.importKey('raw', new Uint8Array(8), 'PBKDF2', false, ['deriveBits'])
      const algorithm = { name: 'PBKDF2', hash: 'SHA-512', salt: new Uint8Array(8), iterations: ${iterations} }
      await Promise.all(Array.from({ length: ${count} }, () => crypto.subtle.deriveBits(algorithm, key, ${bits}))) }`
    await deploy(
      'good',
      'export const handler = async () => (await crypto.subtle.digest("SHA-256", new Uint8Array(9))).byteLength',
    )
    const refused = /iterations are more than is derived|At most 1048576 bits/
    for (const [id, bits] of [['bits', 2 ** 27] as const, ['rounds', 2 ** 12] as const]) {
      await deploy(id, derives(1_000_000, bits, 2))
      t.match(await call(id), { code: 'threw', message: refused }, id)
    }
    const ids = ['a0', 'a1', 'a2', 'a3']
    for (const id of ids) await deploy(id, derives(1_000_000, 512, 100))
    const derived = ids.map((id) => call(id, {}, { timeoutMs: 4_000 }))
    for (let n = 0; n < 10; n++) t.match(await call('good', {}, { timeoutMs: 3_000 }), { value: 32 })
    for (const reply of await Promise.all(derived)) t.equal(reply.code, 'timeout')
    t.match(await call('good', {}, { timeoutMs: 3_000 }), { value: 32 })
  }),
)

t.test(
  'a computation that outlives its call costs only that call, and then the process it cannot be got out of',
  {
    timeout: 100_000,
  },
  (t) =>
    withNeighbours(
      t,
      async ({ deploy, call, hosts, observations }) => {
        const derives = (how: string) => `export async function handler() {
      const key = await crypto.subtle.importKey('raw', new Uint8Array(8), 'PBKDF2', false, ['deriveBits'])
      const algorithm = { name: 'PBKDF2', hash: 'SHA-512', salt: new Uint8Array(8), iterations: 1_000_000 }
      const derived = Promise.all(Array.from({ length: 20 }, () => crypto.subtle.deriveBits(algorithm, key, 1024)))
      ${how} }`
        const cases = [
          ['waits-for-it', 'await derived', { code: 'timeout', started: true }],
          ['leaves-it', 'return 1', { value: 1 }],
        ] as const
        for (const [id, how, reply] of cases) {
          const before = hosts.stats().pids
          const ended = () => observations.flatMap((each) => (each.type === 'host-ended' ? [each] : []))
          const deaths = ended().length
          await deploy(id, derives(how))
          t.match(await call(id, {}, { timeoutMs: 200 }), reply, id)
          await until('its host has ended', () => ended().length > deaths)
          t.match(ended().at(-1), { reason: 'doomed', functionId: id, failed: 0 })
          t.match(observations.filter((each) => each.type === 'function-set-apart').at(-1), {
            functionId: id,
            reason: 'stuck',
          })
          await until('another has its place', () => hosts.stats().hosts === 2)
          t.equal(hosts.stats().pids.filter((pid) => before.includes(pid)).length, 1)
        }
        await deploy('new', 'export const handler = (n) => n + 1')
        t.match(await call('new', 1), { value: 2 }, 'new functions run')
      },
      { computingMs: 100 },
    ),
)

t.test('floods of notes to the host do not make it stand still', { timeout: 100_000 }, (t) =>
  withNeighbours(t, async ({ deploy, call, observations }) => {
    const floods: Readonly<Record<string, string>> = {
      'sets-timers': '() => { for (;;) clearTimeout(setTimeout(() => {}, 1)) }',
      'gives-promises':
        'async (data, { waitUntil }) => { for (;;) { waitUntil(0); for (let n = 0; n < 4; n++) await 0 } }',
    }
    for (const [id, source] of Object.entries(floods)) await deploy(id, `export const handler = ${source}`)
    // Longer than a host may owe signs of life.
    const replies = await Promise.all(Object.keys(floods).map((id) => call(id, {}, { timeoutMs: 4_000 })))
    for (const reply of replies) t.equal(reply.code, 'timeout')
    t.same(
      observations.filter((each) => each.type === 'host-ended'),
      [],
    )
  }),
)

t.test('several at the same time hurt nobody else either', { timeout: 100_000 }, (t) =>
  withNeighbours(t, async ({ deploy, call, observations }) => {
    const names = [
      'an array of two to the twenty-seventh, filled',
      'a text split into a quarter of a thousand million',
      'the digits of a long number',
      'resizable buffers',
      'a regular expression that backtracks',
    ]
    for (const [index, name] of names.entries()) {
      const body = attacks[name]!
      await deploy(`a${index}`, `export const handler = () => ${body.startsWith('{') ? body : `{ return ${body} }`}`)
    }
    for (let round = 0; round < 3; round++) {
      const replies = await Promise.all(names.map((_, index) => call(`a${index}`, {}, { timeoutMs: 1_500 })))
      for (const [index, reply] of replies.entries())
        t.ok(reply.code ?? reply.status, `${names[index]}: ${reply.code ?? reply.status}`)
    }
    const apart = observations.flatMap((each) => (each.type === 'function-set-apart' ? [each.functionId] : []))
    t.ok(
      apart.every((id) => id.startsWith('a')),
      'only they are set apart',
    )
  }),
)
