import { randomBytes } from 'node:crypto'
import t from 'tap'
import { keyRing } from '../../bus/sealed.ts'
import { compile } from '../../gateways/functions/compile.ts'
import { capacity, decideFree, decideTake } from '../../schemas/functions/capacity.ts'
import {
  type Deploy,
  decideDelete,
  decideDeploy,
  decideRollback,
  decideSetEnv,
  decideSetTriggers,
  type FunctionFact,
  type FunctionState,
  functionAggregate,
  placed,
} from '../../schemas/functions/function.ts'
import { callTarget } from '../../schemas/functions/target.ts'

type Decide = (state: FunctionState, moment: { now: number; sequence: number }) => FunctionFact[]

const command: Deploy = {
  functionId: 'hello',
  source: 'function handler() {}',
  code: 'function handler() {}\n',
  sourceMap: '{}',
  hasHandler: true,
  idempotent: false,
}
const deploy: Decide = (state, moment) => decideDeploy(state, command, moment)
const rollback =
  (to: number | null): Decide =>
  (state, moment) =>
    decideRollback(state, { functionId: 'hello', to }, moment)
const remove: Decide = (state, moment) => decideDelete(state, 'hello', moment)
const setEnv: Decide = (state, moment) =>
  decideSetEnv(state, { functionId: 'hello', variables: { A: '1' }, secrets: {} }, moment)
const setTriggers: Decide = (state, moment) =>
  decideSetTriggers(state, { functionId: 'hello', triggers: [{ name: 'nightly', cron: '0 3 * * *' }] }, moment)

/** Decisions one after the other, each message at the next tenth sequence of the stream. */
function given(...decisions: readonly Decide[]) {
  let state = functionAggregate.initial
  let sequence = 0
  for (const decide of decisions) {
    const facts = decide(state, { now: sequence, sequence })
    if (facts.length === 0) continue
    state = facts.reduce(functionAggregate.evolve, state)
    for (const fact of facts) functionAggregate.events.restore(functionAggregate.events.store(fact))
    sequence += 10
  }
  return { state, known: placed(state, sequence), when: (decide: Decide) => decide(state, { now: 99, sequence }) }
}

t.test('deploying', async (t) => {
  t.match(given().when(deploy), [
    { type: 'functions.function.deployed', data: { revision: 1, deployedAt: 99, before: 0 } },
  ])
  t.match(given(deploy, deploy).when(deploy), [{ data: { revision: 3, before: 20 } }])
  t.match(given(deploy, remove).when(deploy), [{ data: { revision: 2 } }], 'a revision never means two things')
})

t.test('a call finds the message with its program and its variables, whatever came behind', async (t) => {
  const target = (...decisions: Decide[]) => {
    const { known } = given(...decisions)
    return known.stage === 'deployed' ? callTarget('hello', known) : null
  }
  t.same(target(deploy), { fn: 'hello', rev: 1, seq: 10, env: 0, envSeq: null })
  t.same(target(deploy, setEnv), { fn: 'hello', rev: 1, seq: 10, env: 1, envSeq: 20 })
  t.same(target(deploy, setEnv, deploy, setTriggers), { fn: 'hello', rev: 2, seq: 30, env: 1, envSeq: 20 })
  t.same(target(deploy, deploy, rollback(1), setEnv), { fn: 'hello', rev: 3, seq: 10, env: 1, envSeq: 40 })
  t.same(target(deploy, setEnv, remove, deploy, setEnv), { fn: 'hello', rev: 2, seq: 40, env: 2, envSeq: 50 })
})

t.test('rolling back', async (t) => {
  t.match(given(deploy, deploy).when(rollback(null)), [{ data: { revision: 3, to: 1 } }])
  t.match(given(deploy, deploy, deploy).when(rollback(1)), [{ data: { revision: 4, to: 1 } }])
  t.same(given(deploy, deploy).when(rollback(2)), [], 'to where it is: nothing')
  t.throws(() => given(deploy).when(rollback(null)), { code: 'functions/unknown-revision' })
  t.throws(() => given(deploy).when(rollback(7)), { code: 'functions/unknown-revision' })
  const many = Array.from({ length: 60 }, () => deploy)
  t.throws(() => given(...many).when(rollback(3)), { code: 'functions/unknown-revision' }, 'too old')
  t.match(given(...many).when(rollback(30)), [{ data: { to: 30, revision: 61 } }])
})

t.test('what is not there is refused', async (t) => {
  for (const decide of [remove, rollback(null), setEnv, setTriggers]) {
    t.throws(() => given().when(decide), { code: 'functions/not-found', message: 'Script not found: hello' })
    t.throws(() => given(deploy, remove).when(decide), { code: 'functions/not-found' })
  }
})

t.test('a deletion forgets variables and triggers', async (t) => {
  t.match(given(deploy, setEnv, setTriggers, remove, deploy).state, {
    triggers: [],
    envSequence: null,
    triggersVersion: 1,
  })
})

t.test('the number of functions is limited', async (t) => {
  const facts = [...decideTake({ taken: 0 }, 'a', 2), ...decideTake({ taken: 1 }, 'b', 2)]
  const full = facts.reduce(capacity.evolve, capacity.initial)
  t.throws(() => decideTake(full, 'c', 2), {
    code: 'functions/limit-reached',
    message: 'Max scripts limit reached (2)',
  })
  t.equal(decideTake(decideFree('a').reduce(capacity.evolve, full), 'c', 2).length, 1)
})

t.test('sources of every form compile to scripts', async (t) => {
  const sources: readonly (readonly [string, RegExp])[] = [
    ['function handler(data) { return data }', /^function handler\(data\)/m],
    ['const handler = async (data) => data', /handler = async/],
    ['export function handler(data) { return data }', /module\.exports = __toCommonJS/],
    ['export default (data) => data', /default: \(\) =>/],
    ['module.exports.handler = (data) => data', /module\.exports\.handler =/],
    ['exports.handler = (data) => data', /exports\.handler =/],
    ['enum Kind { A = 1 }\nexport function handler<T>(data: T): [Kind, T] { return [Kind.A, data] }', /Kind/],
    ['namespace Tools { export const two: number = 2 }\nexport const handler = () => Tools.two', /Tools/],
    ['const text = "from require import"\nfunction handler() { return text }', /from require import/],
    ['#!/usr/bin/env node\nfunction handler() {}', /^\nfunction handler/],
  ]
  for (const [source, expected] of sources) {
    const { code, hasHandler, sourceMap } = await compile(source)
    t.match(code, expected)
    t.equal(hasHandler, true, source)
    t.doesNotThrow(() => new Function('module', 'exports', 'require', code), source)
    t.match(JSON.parse(sourceMap), { version: 3, sources: [/function\.ts$/] })
  }
})

t.test('what a source exports is told from its parsed code', async (t) => {
  const none = [
    'const x = 1',
    'const x = "handler"',
    'module.exports = {}',
    'module.exports = { other() {} }',
    'export default 5',
    'export default class {}',
    'export default { other() {} }',
    'const five = 5; export { five as handler }',
    'const o = { handler() {} }',
    'function other() { function handler() {} }',
    'exports.handler = "text"',
    'let handler',
    '// handler\nconst y = 1',
  ]
  const some = [
    'let handler; handler = () => 1',
    'module.exports = { handler() {} }',
    'module.exports = () => 1',
    'const made = { handler: () => 1 }; module.exports = made',
    'export default { handler() {} }',
    'const named = () => 1; export { named as handler }',
    'Object.assign(exports, { ["hand" + "ler"]: () => 1 })',
    'Object.assign(module.exports, { ["hand" + "ler"]: () => 1 })',
    'exports["hand" + "ler"] = () => 1',
    'const { handler } = { handler() {} }',
    'class Tools { static handler() {} }\nexport default Tools',
    'globalThis.handler = () => 1',
    `export const handler = () => ${'a.'.repeat(30_000)}a`,
  ]
  for (const [sources, expected] of [[none, false] as const, [some, true] as const]) {
    for (const source of sources) t.equal((await compile(source)).hasHandler, expected, source.slice(0, 100))
  }
})

t.test('a source that ends the compiler is refused, and takes no other with it', async (t) => {
  const hostile = [
    `const handler=${'['.repeat(250_000)}${']'.repeat(250_000)}`,
    `const handler=${'!'.repeat(500_000)}1`,
  ]
  for (const source of hostile) {
    const plain = Array.from({ length: 4 }, (_, n) => compile(`export const handler = () => ${n}`))
    const refused = await compile(source).catch((error: Error) => error)
    t.match(refused, { code: 'functions/does-not-compile', status: 400, message: /nested/ })
    for (const [n, { code }] of (await Promise.all(plain)).entries()) t.match(code, `=> ${n}`)
    t.equal((await compile('const handler = () => 1')).hasHandler, true, 'the next one compiles')
  }
})

t.test('a source on which the compiler works for minutes is refused, and holds up no other', async (t) => {
  const refused = compile(`export const handler = () => 1;${'a=b,'.repeat(125_000)}a=1`, 1_000)
  const plain = Array.from({ length: 4 }, (_, n) => compile(`export const handler = () => ${n}`))
  await t.rejects(refused, {
    code: 'functions/does-not-compile',
    status: 400,
    message: /longer to compile than 1000 ms/,
  })
  for (const [n, { code }] of (await Promise.all(plain)).entries()) t.match(code, `=> ${n}`)
  t.equal((await compile('const handler = () => 1')).hasHandler, true, 'the next one compiles')
})

t.test('a source that does not compile says where', async (t) => {
  const sources: readonly (readonly [string, string])[] = [
    ['function handler( {', 'line 1, column 20'],
    ['\n\n  const é = ;', 'line 3, column 13'],
    ['import fs from "fs"\nexport function handler() { return fs }', 'A function cannot import modules ("fs")'],
    ['const fs = require("node:fs")', 'A function cannot import modules ("node:fs")'],
    ['export * from "./other.ts"', 'A function cannot import modules'],
    ['function handler() { return import("x") }', 'A function cannot import modules ("x")'],
    ['await 1\nfunction handler() {}', 'await may be used inside of async functions only (line 1, column 1)'],
    ['type A = 1\n\nconst x: A = 1, y = /(/', '/(/: Unterminated group (line 3, column 21)'],
    [
      'export function handler() {\n  return () => /(?<a>x)(?<a>y)/\n}',
      'Duplicate capture group name (line 2, column 16)',
    ],
    ['const handler = () => /x/vu', 'Invalid regular expression flags (line 1, column 23)'],
  ]
  for (const [source, expected] of sources) {
    const refused = await compile(source).then(
      () => null,
      (error: Error) => error,
    )
    t.match(refused, { code: 'functions/does-not-compile', status: 400 }, source)
    t.ok(refused?.message.includes(expected), `${source}: ${refused?.message}`)
  }
})

t.test('sealed values', async (t) => {
  const key = (id: string) => `${id}:${randomBytes(32).toString('base64')}`
  const [old, current] = [key('old'), key('new')]
  const ring = keyRing([current, old])!
  const sealed = ring.seal('päss', 'functions.function/hello/env/1/S')
  t.not(JSON.stringify(sealed).includes('päss'), true)
  t.equal(sealed.keyId, 'new')
  t.equal(ring.open(sealed, 'functions.function/hello/env/'), 'päss')
  t.not(ring.seal('päss', sealed.context).nonce, sealed.nonce)
  t.equal(ring.open(keyRing([old])!.seal('x', 'a/1'), 'a/'), 'x', 'older keys still open')
  const broken = [
    [{ ...sealed, context: 'functions.function/other/env/1/S' }, 'functions.function/other/'],
    [sealed, 'functions.function/other/'],
    [{ ...sealed, keyId: 'gone' }, 'functions.function/hello/'],
    [{ ...sealed, ciphertext: `AAAA${sealed.ciphertext.slice(4)}` }, 'functions.function/hello/'],
    [{ ...sealed, ciphertext: '' }, 'functions.function/hello/'],
  ] as const
  for (const [value, owner] of broken) t.throws(() => ring.open(value, owner), { name: 'SealBroken' })
  t.equal(keyRing(undefined), null)
  t.throws(() => keyRing(['short:AAAA']), { name: 'TypeError', message: /entry 1/ })
})
