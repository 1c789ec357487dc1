import t from 'tap'
import { withNeighbours } from './hosts-support.ts'

t.setTimeout(120_000)

/**
 * Attempts to get out of the sandbox. Each handler answers what it has got hold of: nothing. All run in one host process, beside
 * functions that must not notice.
 */
const owned = /process|require|Buffer|isolated|Isolate|Reference|main\.ts|node:|\/host\/|node_modules/

const contained: readonly (readonly [string, string, unknown])[] = [
  [
    'constructor of the global object',
    'export const handler = () => globalThis.constructor.constructor("return typeof process + typeof require")()',
    'undefinedundefined',
  ],
  [
    'constructors of functions of every kind',
    `export async function handler() {
    const kinds = [function () {}, async function () {}, function* () {}, async function* () {}, () => {}, class {}]
    const found = []
    for (const kind of kinds) {
      let value = kind.constructor("return typeof process + typeof require")()
      value = value && value.next ? value.next() : value
      value = await value
      found.push(value && typeof value === "object" ? value.value : value)
    }
    return [...new Set(found)] }`,
    ['undefinedundefined'],
  ],
  [
    'everything that can be reached from here',
    `export function handler(data, context) {
    const seen = new Set(), found = []
    const names = ["process", "require", "Buffer", "ivm", "Isolate", "Reference", "ExternalCopy", "Callback", "applySync", "derefInto"]
    const visit = (value, path, depth) => {
      if (value === null || (typeof value !== "object" && typeof value !== "function") || seen.has(value) || depth > 12) return
      seen.add(value)
      for (const key of Reflect.ownKeys(value)) {
        if (names.includes(key)) found.push(path + "." + String(key))
        let own; try { own = Reflect.getOwnPropertyDescriptor(value, key) } catch { continue }
        for (const part of [own.value, own.get, own.set]) visit(part, path + "." + String(key), depth + 1)
      }
      visit(Reflect.getPrototypeOf(value), path + ".__proto__", depth + 1)
    }
    visit(globalThis, "global", 0); visit(context, "context", 0); visit(arguments, "arguments", 0); visit(new Error("x"), "error", 0)
    return found }`,
    [],
  ],
  [
    'names that are no business of a function',
    `export const handler = () =>
    ["process", "require", "module", "exports", "Buffer", "global", "ivm", "busbarSandbox", "WebAssembly", "SharedArrayBuffer", "Atomics", "$0", "$1"]
      .filter((name) => name in globalThis)`,
    [],
  ],
  [
    'what prepareStackTrace is shown',
    `export async function handler() {
    const leaks = []
    Error.prepareStackTrace = (_, sites) => { for (const site of sites) {
      const self = site.getThis(), code = site.getFunction()
      if (self !== undefined && self !== globalThis) leaks.push("this")
      try { if (code && code.constructor("return typeof process")() !== "undefined") leaks.push("function") } catch {}
      if (/[/]|node|[.]ts/.test(String(site.getFileName()))) leaks.push(site.getFileName()) }
      return "" }
    const errors = [() => null.x, () => new URL("::"), () => atob("*"), () => structuredClone(() => 1), () => crypto.getRandomValues(1), () => JSON.parse("{")]
    for (const error of errors) try { error() } catch (caught) { void caught.stack }
    try { await fetch("http://127.0.0.1/") } catch (caught) { void caught.stack }
    void new Error().stack
    return leaks }`,
    [],
  ],
  [
    'errors of host operations',
    `export async function handler() {
    const found = []
    const look = (error) => { for (let at = error; at; at = Object.getPrototypeOf(at)) {
      if (at.constructor && at.constructor.constructor("return typeof process")() !== "undefined") found.push(String(at)) }
      if (/[/]host[/]|node:|node_modules/.test(String(error.stack))) found.push(error.stack) }
    for (const call of [() => fetch("http://10.0.0.1/"), () => crypto.subtle.digest("nope", new Uint8Array(1)), () => new URL("%"), () => new TextDecoder("nope")])
      try { await call() } catch (error) { look(error) }
    return found }`,
    [],
  ],
  [
    'errors of host operations at the end of the stack',
    `export function handler() {
    const found = []
    const deep = (n) => { try { deep(n + 1) } catch (error) {
      if (error.constructor.constructor("return typeof process")() !== "undefined") found.push("host error")
      try { new URL("http://a/"); performance.now(); crypto.randomUUID() } catch (second) {
        if (second.constructor.constructor("return typeof process")() !== "undefined") found.push("host error") }
      throw error } }
    try { deep(0) } catch {}
    return found }`,
    undefined,
  ],
  [
    'dynamic import',
    'export const handler = async () => { try { await (0, eval)("import(\'node:fs\')"); return "got it" } catch { return "none" } }',
    'none',
  ],
  [
    'import by a function made of text',
    'export const handler = async () => { try { await new Function("return import(\'fs\')")(); return "got it" } catch { return "none" } }',
    'none',
  ],
  [
    'WebAssembly and shared memory',
    'export const handler = () => [typeof WebAssembly, typeof SharedArrayBuffer, typeof Atomics]',
    ['undefined', 'undefined', 'undefined'],
  ],
  [
    'arguments.callee.caller',
    'module.exports.handler = function () { try { return String(arguments.callee.caller) } catch { return "null" } }',
    'null',
  ],
  [
    'an own then on the result',
    'export const handler = () => ({ then(resolve) { resolve({ constructor: 1, deep: "value" }) } })',
    { constructor: 1, deep: 'value' },
  ],
  [
    'a thenable that is asked twice',
    'let n = 0; export const handler = () => ({ get then() { return ++n === 1 ? (r) => r("once") : undefined } })',
    undefined,
  ],
  [
    'a proxy for a result',
    `export const handler = () => new Proxy({ a: 1 }, { get: (o, k) => (k === "then" ? undefined : o[k]) })`,
    { a: 1 },
  ],
  [
    'a handler that is a proxy',
    'exports.handler = new Proxy(() => "p", { apply: (target, self, given) => target(...given) + "!" })',
    'p!',
  ],
  ['a handler that is got', 'Object.defineProperty(exports, "handler", { get: () => () => "got" })', 'got'],
  ['a handler that is a generator', 'export function* handler() { for (;;) yield 1 }', {}],
  [
    'a thenable that settles again and again',
    'export const handler = () => ({ then(done, fail) { done(1); done(2); fail(3); throw new Error("4") } })',
    1,
  ],
  [
    'a promise of a species that never settles',
    `class Slow extends Promise { static get [Symbol.species]() { return class { constructor(run) { run(() => {}, () => {}) } } } }
    export const handler = () => new Slow((resolve) => resolve(5))`,
    5,
  ],
  [
    'headers that are named like what every object has',
    `export const handler = () => ({ status: 200, body: "x", headers: JSON.parse('{"__proto__":"a","constructor":"b"}') })`,
    'x',
  ],
  [
    'JSON with a prototype',
    `export const handler = () => { JSON.parse('{"__proto__":{"polluted":1}}'); return [({}).polluted ?? null, JSON.parse('{"__proto__":{"a":1}}').a ?? null] }`,
    [null, null],
  ],
  [
    'a transfer that never ends',
    `export const handler = () => { try {
      structuredClone(1, { transfer: { *[Symbol.iterator]() { for (;;) yield new ArrayBuffer(1e6) } } }) } catch ({ name }) { return name } }`,
    'RangeError',
  ],
  [
    'options that say something else when they are read again',
    `export const handler = () => {
      const options = { n: 0, get maxByteLength() { return this.n++ === 0 ? undefined : 64 } }
      return [new ArrayBuffer(8, options).resizable, Reflect.construct(new Uint8Array(1).buffer.constructor, [8, { n: 0, get maxByteLength() { return this.n++ === 0 ? undefined : 64 } }]).resizable] }`,
    [false, false],
  ],
  ['toJSON with the last word', 'export const handler = () => ({ toJSON: () => ({ ok: true }) })', { ok: true }],
  [
    'async generators',
    'async function* g() { yield 1; yield 2 } export async function handler() { const all = []; for await (const one of g()) all.push(one); return all }',
    [1, 2],
  ],
  [
    'symbols that species follow',
    'class A extends Array { static get [Symbol.species]() { return function () { return {} } } } export const handler = () => [...new A(1, 2)]',
    [1, 2],
  ],
  [
    'a finaliser, when memory has been swept',
    `let called = 0
    const registry = new FinalizationRegistry(() => { called++ })
    export async function handler() {
      for (let n = 0; n < 2_000; n++) registry.register({ n }, n)
      for (let round = 0; round < 20 && called === 0; round++) {
        for (let n = 0, junk = []; n < 150; n++) junk.push(new Array(1e4).fill(n))
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      return [called, registry.unregister({}), String(registry)] }`,
    [0, false, '[object FinalizationRegistry]'],
  ],
]

/** Built-in objects that are no longer what they were; the function may spoil its own answer, and nothing else. */
const poisons: readonly string[] = [
  'JSON.stringify = JSON.parse = () => { throw new Error("mine") }',
  'Object.prototype.toJSON = () => "mine"',
  'Object.defineProperty(Object.prototype, "then", { get() { return (resolve) => resolve("mine") }, configurable: true })',
  'Object.defineProperty(Object.prototype, "ok", { get: () => false, set() {} })',
  'Object.defineProperty(Object.prototype, "status", { get: () => 200 }); Object.defineProperty(Object.prototype, "body", { get: () => globalThis })',
  'Promise.prototype.then = () => "mine"; Promise.resolve = () => 7',
  'Array.prototype.push = Array.prototype[Symbol.iterator] = Map.prototype.get = Map.prototype.set = () => "mine"',
  'Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => "mine"',
  'String.prototype.indexOf = String.prototype.slice = () => 3; globalThis.String = () => "mine"',
  'Object.defineProperty(Array.prototype, "0", { set() { throw new Error("mine") } })',
  'Symbol.prototype[Symbol.toPrimitive] = () => "mine"; RegExp.prototype.exec = () => null',
  'for (const name of Reflect.ownKeys(globalThis)) try { delete globalThis[name] } catch {}',
  'Object.setPrototypeOf(globalThis, new Proxy({}, { get() { for (;;); }, has: () => false }))',
  'Error.prepareStackTrace = () => { throw new Error("mine") }',
  'Error.stackTraceLimit = { valueOf() { for (;;); } }',
  'Object.freeze(Object.prototype); Object.freeze(Promise.prototype); Object.freeze(Array.prototype)',
]

/** Results that are traps: each is answered, in some way, within its time. */
const results: readonly string[] = [
  'new Proxy({}, { get() { throw new Error("trap") } })',
  'new (class extends Response { get headers() { return { getSetCookie() { for (;;); } } } })("x")',
  'Object.defineProperty(Promise.resolve(1), "constructor", { get() { for (;;); } })',
  'new Proxy({}, { get() { for (;;); } })',
  'new Proxy({}, { ownKeys() { for (;;); } })',
  'new Proxy(function () {}, { apply() { for (;;); }, getPrototypeOf() { for (;;); } })',
  '({ get then() { for (;;); } })',
  '({ then(resolve) { resolve(this) } })',
  '({ then(resolve, reject) { reject({ get message() { for (;;); }, get stack() { for (;;); } }) } })',
  '({ get status() { return 200 }, get body() { throw { toString() { for (;;); } } } })',
  '({ status: 200, body: "x", headers: new Proxy({}, { ownKeys: () => Array.from({ length: 1e5 }, (_, n) => "h" + n), getOwnPropertyDescriptor: () => ({ value: "1", enumerable: true, configurable: true }) }) })',
  '({ status: 200, body: "x", headers: { "a\\r\\nset-cookie": "b", c: "d\\r\\ne: f" } })',
  '({ status: { valueOf() { for (;;); } }, body: "x" })',
  '({ toJSON() { for (;;); } })',
  '(() => { const a = []; a.push(a); return a })()',
  '(() => { let a = {}; for (let n = 0; n < 1e6; n++) a = { a }; return a })()',
  'Symbol("x")',
  '10n ** 100n',
  '(() => {})',
  'Promise.reject(null)',
  'Promise.reject(Symbol())',
  'Promise.reject(new Proxy({}, { get() { for (;;); } }))',
  'Object.create(null, { status: { get() { for (;;); } } })',
]

t.test('nothing of the host is reachable', (t) =>
  withNeighbours(t, async ({ deploy, call }) => {
    for (const [index, [name, source, expected]] of contained.entries()) {
      await deploy(`c${index}`, source)
      const reply = await call(`c${index}`, {}, { timeoutMs: 5_000 })
      if (expected === undefined) t.ok(reply.status !== undefined || reply.code !== undefined, name)
      else
        t.match(
          { status: reply.status, value: reply.value },
          { status: 200, value: expected },
          `${name} ${reply.message ?? ''}`,
        )
    }
  }),
)

t.test('a function that poisons built-ins spoils only itself', (t) =>
  withNeighbours(t, async ({ deploy, call }) => {
    for (const [index, poison] of poisons.entries()) {
      await deploy(
        `p${index}`,
        `${poison}\nexport const handler = (data, { kv }) => kv.put("k", 1).then(() => ({ a: 1 }))`,
      )
      for (let again = 0; again < 2; again++) {
        const reply = await call(`p${index}`, { b: 2 }, { timeoutMs: 1_000 })
        t.ok(reply.status !== undefined || reply.code !== undefined, poison)
        t.notMatch(JSON.stringify(reply), owned, 'nothing of the host shows')
      }
    }
  }),
)

t.test('a result that is a trap is answered within its time', (t) =>
  withNeighbours(t, async ({ deploy, call }) => {
    for (const [index, result] of results.entries()) {
      await deploy(`r${index}`, `export const handler = () => ${result}`)
      const reply = await call(`r${index}`, {}, { timeoutMs: 1_000 })
      t.ok(reply.status !== undefined || reply.code !== undefined, `${result}: ${reply.code ?? reply.status}`)
      t.notMatch(JSON.stringify(reply), owned, 'nothing of the host shows')
      t.ok(reply.durationMs < 4_000, `it took ${Math.round(reply.durationMs)} ms`)
    }
  }),
)
