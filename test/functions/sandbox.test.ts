import { createHash, createHmac, createPublicKey } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { callStart, readReplyHead } from '../../schemas/functions/call.ts'
import { sandboxSource } from '../../workers/functions/sandbox/bundle.ts'
import { stage } from './hosts-support.ts'

type Case = readonly [title: string, body: string, expected: unknown, data?: unknown]

/** Each body is what a handler does with `data` and `context`. */
const answers: Readonly<Record<string, readonly Case[]>> = {
  'the URL classes': [
    [
      'parts',
      'const u = new URL("../a b?x=é#ü", "https://me:pw@EXAMPLE.com:8443/p/q/"); return [u.href, u.origin, u.port, u.username, u.pathname]',
      ['https://me:pw@example.com:8443/p/a%20b?x=%C3%A9#%C3%BC', 'https://example.com:8443', '8443', 'me', '/p/a%20b'],
    ],
    [
      'search parameters and their URL follow each other',
      'const u = new URL("http://h/?a=1"); u.searchParams.append("b", "2 3"); const s = u.href; u.search = "?z=9"; return [s, u.searchParams.get("z"), u.searchParams.has("a")]',
      ['http://h/?a=1&b=2+3', '9', false],
    ],
    [
      'a bad URL is a TypeError of the sandbox',
      'try { new URL("no") } catch (e) { return [e instanceof TypeError, e.message.startsWith("Invalid URL")] }',
      [true, true],
    ],
    [
      'canParse and parse',
      'return [URL.canParse("x"), URL.canParse("x", "http://h"), URL.parse("x")]',
      [false, true, null],
    ],
    ['JSON', 'return { u: new URL("http://h") }', { u: 'http://h/' }],
  ],
  'encodings and base64': [
    [
      'UTF-8 there and back',
      'return new TextDecoder().decode(new TextEncoder().encode("aé€😀\\ud800"))',
      'aé€😀\ufffd',
    ],
    ['a BOM', 'return [...new TextDecoder().decode(Uint8Array.of(239,187,191,65))].length', 1],
    [
      'a fatal error',
      'try { new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.of(255)) } catch (e) { return e.name }',
      'TypeError',
    ],
    [
      'legacy labels',
      'return ["latin1","shift_jis","ascii","utf8","utf-16"].map((l) => new TextDecoder(l).encoding)',
      ['windows-1252', 'shift_jis', 'windows-1252', 'utf-8', 'utf-16le'],
    ],
    ['no such label', 'try { new TextDecoder("nope") } catch (e) { return e.name }', 'RangeError'],
    [
      'a stream',
      'const d = new TextDecoder(); return d.decode(Uint8Array.of(0xe2, 0x82), { stream: true }) + "|" + d.decode(Uint8Array.of(0xac))',
      '|€',
    ],
    ['base64', 'return [btoa("\\u00ffa"), atob("/2E="), atob(" YQ "), btoa("")]', ['/2E=', '\u00ffa', 'a', '']],
    [
      'what is no base64',
      'return ["é","a","ab=c","%%%%"].map((x) => { try { return atob(x) } catch (e) { return e.name } })',
      ['InvalidCharacterError', 'InvalidCharacterError', 'InvalidCharacterError', 'InvalidCharacterError'],
    ],
  ],
  structuredClone: [
    [
      'what JSON cannot hold',
      'const a = { d: new Date(5), m: new Map([[1, new Set([2])]]), r: /x/gi, b: Uint8Array.of(1, 2) }; a.self = a; const c = structuredClone(a); return [c !== a, c.self === c, c.d.getTime(), [...c.m.get(1)], String(c.r), [...c.b]]',
      [true, true, 5, [2], '/x/gi', [1, 2]],
    ],
    [
      'a function',
      'try { structuredClone(() => 1) } catch (e) { return [e.name, e.code, e instanceof DOMException] }',
      ['DataCloneError', 25, true],
    ],
    [
      'a transfer',
      'const b = new ArrayBuffer(4); const c = structuredClone(b, { transfer: [b] }); return [b.byteLength, c.byteLength]',
      [0, 4],
    ],
  ],
  'events and abortion': [
    [
      'listeners',
      'const t = new EventTarget(), seen = []; t.addEventListener("x", (e) => seen.push(e.type), { once: true }); t.dispatchEvent(new Event("x")); t.dispatchEvent(new Event("x")); return seen',
      ['x'],
    ],
    [
      'any and timeout',
      'const c = new AbortController(); const s = AbortSignal.any([c.signal, AbortSignal.timeout(5)]); return new Promise((r) => { s.onabort = () => r([s.reason.name, c.signal.aborted]) })',
      ['TimeoutError', false],
    ],
    [
      'abort',
      'const s = AbortSignal.abort(); try { s.throwIfAborted() } catch (e) { return [e.name, e.code] }',
      ['AbortError', 20],
    ],
  ],
  timers: [
    [
      'order of due times and microtasks first',
      'const out = []; setTimeout(() => out.push("b"), 12); setTimeout((x) => out.push(x), 1, "a"); queueMicrotask(() => out.push("m")); return new Promise((r) => setTimeout(() => r(out), 30))',
      ['m', 'a', 'b'],
    ],
    [
      'cleared ones do not run',
      'let n = 0; clearTimeout(setTimeout(() => n++, 1)); return new Promise((r) => setTimeout(() => r(n), 10))',
      0,
    ],
    [
      'a flood is refused',
      'try { for (;;) setTimeout(() => {}, 60000) } catch (e) { return [e.name, e.message] }',
      ['RangeError', 'More than 1000 timers are set'],
    ],
  ],
  'Headers, Request and Response': [
    [
      'combined and sorted',
      'const h = new Headers({ b: "2", a: "1" }); h.append("A", "3"); return [...h]',
      [
        ['a', '1, 3'],
        ['b', '2'],
      ],
    ],
    ['a name that is none', 'try { new Headers({ "a b": 1 }) } catch (e) { return e.name }', 'TypeError'],
    [
      'bodies',
      'const r = new Response(JSON.stringify({ a: 1 })); const c = r.clone(); return [await r.json(), await c.text(), r.bodyUsed]',
      [{ a: 1 }, '{"a":1}', true],
    ],
    [
      'a body is read once',
      'const r = new Response("x"); await r.text(); try { await r.text() } catch (e) { return e.name }',
      'TypeError',
    ],
    [
      'streams are refused in words',
      'try { new Response("x").body } catch (e) { return e.message.startsWith("Streams are not supported") }',
      true,
    ],
    [
      'a form there and back',
      'const f = new FormData(); f.append("a", "é\\r\\n"); f.append("f", new File(["hi"], "n.txt", { type: "text/plain" })); const back = await new Response(f).formData(); const file = back.get("f"); return [back.get("a"), file.name, file.type, await file.text()]',
      ['é\r\n', 'n.txt', 'text/plain', 'hi'],
    ],
    [
      'request',
      'const r = new Request("http://h/x", { method: "post", body: "b" }); return [r.method, r.url, r.headers.get("content-type"), await r.text()]',
      ['POST', 'http://h/x', 'text/plain;charset=UTF-8', 'b'],
    ],
    [
      'blobs',
      'const b = new Blob(["ab", Uint8Array.of(99)], { type: "T/x" }); return [b.size, b.type, await b.slice(1).text()]',
      [3, 't/x', 'bc'],
    ],
  ],
  crypto: [
    [
      'digest',
      'return [...new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode("abc")))]',
      [...createHash('sha256').update('abc').digest()],
    ],
    [
      'HMAC',
      'const k = await crypto.subtle.importKey("raw", new TextEncoder().encode("key"), { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]); const d = new TextEncoder().encode("data"); const s = await crypto.subtle.sign("HMAC", k, d); return [[...new Uint8Array(s)], await crypto.subtle.verify("HMAC", k, s, d), k.extractable]',
      [[...createHmac('sha256', 'key').update('data').digest()], true, false],
    ],
    [
      'a key that is not extractable stays inside',
      'const k = await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt"]); try { await crypto.subtle.exportKey("raw", k) } catch (e) { return [e.name, JSON.stringify(k)] }',
      ['InvalidAccessError', '{}'],
    ],
    ...(
      [
        ['AES-GCM', '{ name: "AES-GCM", length: 256 }', '{ name: "AES-GCM", iv: new Uint8Array(12) }'],
        ['AES-CBC', '{ name: "AES-CBC", length: 128 }', '{ name: "AES-CBC", iv: new Uint8Array(16) }'],
      ] as const
    ).map(
      ([name, make, use]): Case => [
        name,
        `const k = await crypto.subtle.generateKey(${make}, true, ["encrypt", "decrypt"]); const c = await crypto.subtle.encrypt(${use}, k, new TextEncoder().encode("secret")); return [k.algorithm.name, new TextDecoder().decode(await crypto.subtle.decrypt(${use}, k, c))]`,
        [name, 'secret'],
      ],
    ),
    ...(
      [
        ['ECDSA', '{ name: "ECDSA", namedCurve: "P-256" }', '{ name: "ECDSA", hash: "SHA-256" }'],
        ['Ed25519', '"Ed25519"', '"Ed25519"'],
        [
          'RSASSA-PKCS1-v1_5',
          '{ name: "RSASSA-PKCS1-v1_5", modulusLength: 2048, publicExponent: Uint8Array.of(1, 0, 1), hash: "SHA-256" }',
          '"RSASSA-PKCS1-v1_5"',
        ],
      ] as const
    ).map(
      ([name, make, use]): Case => [
        name,
        `const { publicKey, privateKey } = await crypto.subtle.generateKey(${make}, true, ["sign", "verify"]); const d = Uint8Array.of(1, 2); const s = await crypto.subtle.sign(${use}, privateKey, d); const jwk = await crypto.subtle.exportKey("jwk", publicKey); const again = await crypto.subtle.importKey("jwk", jwk, ${make}, true, ["verify"]); return [await crypto.subtle.verify(${use}, again, s, d), await crypto.subtle.verify(${use}, again, s, Uint8Array.of(9))]`,
        [true, false],
      ],
    ),
    [
      'random',
      'const a = crypto.getRandomValues(new Uint32Array(4)); return [a.some((n) => n > 0), /^[0-9a-f-]{36}$/.test(crypto.randomUUID())]',
      [true, true],
    ],
    [
      'too much at once',
      'try { crypto.getRandomValues(new Uint8Array(65537)) } catch (e) { return e.name }',
      'QuotaExceededError',
    ],
  ],
  'what is not there': [
    [
      'shared and growing memory',
      'return [typeof WebAssembly, typeof SharedArrayBuffer, typeof Atomics, typeof ArrayBuffer.prototype.resize]',
      ['undefined', 'undefined', 'undefined', 'undefined'],
    ],
    [
      'resizable buffers by any constructor',
      'class B extends ArrayBuffer {} ; const tries = [ArrayBuffer, B, new Uint8Array(1).buffer.constructor, ArrayBuffer.prototype.constructor]; return tries.map((C) => { try { return new C(8, { maxByteLength: 16 }).resizable } catch (e) { return e.name } })',
      ['TypeError', 'TypeError', 'TypeError', 'TypeError'],
    ],
    [
      'plain buffers stay',
      'class B extends ArrayBuffer {} ; const b = new B(3); return [b.byteLength, b instanceof B, b instanceof ArrayBuffer, ArrayBuffer.isView(new Uint8Array(1))]',
      [3, true, true, true],
    ],
    ['Node', 'return [typeof process, typeof Buffer, typeof module.exports]', ['undefined', 'undefined', 'object']],
    [
      'modules',
      'const load = require; try { load("fs") } catch (e) { return e.message }',
      'A function cannot load modules: require("fs") is not supported',
    ],
    ['dynamic imports', 'try { await import(String("fs")) } catch (e) { return typeof e.message }', 'string'],
  ],
  'poisoned built-ins': [
    [
      'JSON',
      'const s = JSON.stringify; JSON.stringify = JSON.parse = () => { throw 1 }; return s({ a: 1 })',
      '{"a":1}',
    ],
    ['then', 'Promise.prototype.then = () => { throw 1 }; return await (async () => 2)()', 2],
    ['Object.prototype.toJSON', 'Object.prototype.toJSON = () => "mine"; return { a: 1 }', 'mine'],
    [
      'Array.prototype.push',
      'Array.prototype.push = Array.prototype.join = () => { throw 1 }; console.log("x"); return 3',
      3,
    ],
    [
      'stack traces show no function of the sandbox',
      'Error.prepareStackTrace = (e, sites) => sites.map((s) => [typeof s.getFunction(), typeof s.getThis()]); const sites = new Error("x").stack; return sites.slice(1).every(([f, s]) => f === "undefined" && s === "undefined")',
      true,
    ],
    ["global names stay the user's", 'return Object.keys(globalThis)', []],
  ],
  'the context': [
    [
      'of the call',
      'return [context.method, context.functionId, typeof context.revision, typeof context.invocationId, context.query, Object.isFrozen(context.env), new TextDecoder().decode(context.rawBody())]',
      ['POST', 'f', 'number', 'string', {}, true, '{"x":1}'],
      { x: 1 },
    ],
    [
      'performance and navigator',
      'return [performance.now() >= 0, performance.timeOrigin > 1e12, navigator.userAgent, self === globalThis]',
      [true, true, 'Busbar', true],
    ],
  ],
}

t.test('in the sandbox work', async (t) => {
  const { deploy, call } = await stage(t, { hosts: 1 })
  for (const [group, cases] of Object.entries(answers))
    await t.test(group, async (t) => {
      for (const [title, body, expected, data] of cases) {
        await deploy('f', `export async function handler(data, context) { ${body} }`)
        const { value, code, message } = await call('f', data)
        t.same(code === undefined ? value : { code, message }, expected, title)
      }
    })
})

t.test('a result means', async (t) => {
  const { deploy, hosts } = await stage(t, { hosts: 1 })
  const json = { 'content-type': 'application/json' }
  const cookies = { 'set-cookie': 'a\nb' }
  const cases: readonly (readonly [source: string, status: number, headers: object, body: string])[] = [
    ['undefined', 204, {}, ''],
    ['null', 200, json, 'null'],
    ['"text"', 200, json, '"text"'],
    ['[1, { a: "é" }]', 200, json, '[1,{"a":"é"}]'],
    ['({ status: 404, body: "gone" })', 404, json, 'gone'],
    ['({ status: 201, body: { a: 1 }, headers: { "X-A": "b" } })', 201, { 'x-a': 'b' }, '{"a":1}'],
    ['({ status: 200, body: "" })', 200, json, '{"status":200,"body":""}'],
    ['({ status: 0, body: "x" })', 200, json, '{"status":0,"body":"x"}'],
    ['Uint8Array.of(104, 105)', 200, { 'content-type': 'application/octet-stream' }, 'hi'],
    ['Response.json({ a: 1 }, { status: 202 })', 202, json, '{"a":1}'],
    [
      'new Response("x", { headers: { "set-cookie": "a=b" } })',
      200,
      { 'set-cookie': 'a=b', 'content-type': 'text/plain;charset=UTF-8' },
      'x',
    ],
    ['({ status: 200, body: "x", headers: [["A", "b"], ["a", "c"]] })', 200, { a: 'b, c' }, 'x'],
    ['({ status: 200, body: "x", headers: [["Set-Cookie", "a"], ["set-cookie", "b"]] })', 200, cookies, 'x'],
    ['({ status: 200, body: "x", headers: { "set-cookie": ["a", "b"] } })', 200, cookies, 'x'],
    ['({ then(done) { done(7) } })', 200, json, '7'],
  ]
  for (const [source, status, headers, body] of cases) {
    const reply = await run(source)
    t.match(reply, { kind: 'response', status }, source)
    if (reply.kind === 'response')
      t.same([{ ...reply.headers }, Buffer.from(reply.body).toString()], [headers, body], source)
  }
  const faults: readonly (readonly [source: string, code: string, message: RegExp])[] = [
    ['() => 1', 'unserialisable', /The result is a function/],
    ['Symbol("x")', 'unserialisable', /The result is a symbol/],
    ['10n', 'unserialisable', /The result is a bigint/],
    ['({ a: 10n })', 'unserialisable', /BigInt/],
    ['({ status: 99, body: "x" })', 'unserialisable', /status must be an integer from 200 to 599/],
    ['({ status: 200, body: "x", headers: { "a b": "c" } })', 'unserialisable', /"a b" is no header name/],
    ['({ status: 200, body: "x", headers: { a: "b\\r\\nc: d" } })', 'unserialisable', /value of the header a/],
    ['({ status: 200, body: "x", headers: { a: "v".repeat(8193) } })', 'output-too-large', /header a is larger/],
    [
      '({ status: 200, body: "x", headers: { "set-cookie": ["a\\nb"] } })',
      'unserialisable',
      /value of the header set-cookie/,
    ],
    ['new Response("x", { headers: { a: "v".repeat(8193) } })', 'output-too-large', /header a is larger/],
    ['"é".repeat(3200000)', 'output-too-large', /larger than 6291456 bytes/],
    ['new Uint8Array(6291457)', 'output-too-large', /larger than 6291456 bytes/],
    ['(() => { throw { message: { deep: 1 } } })()', 'threw', /\{"message":\{"deep":1\}\}/],
    ['Promise.reject("no")', 'threw', /^no$/],
  ]
  for (const [source, code, message] of faults) t.match(await run(source), { kind: 'fault', code, message }, source)

  t.match(await run('data', 'text/plain', 'plain é'), { status: 200 })
  const told = await run('data', 'text/plain', 'plain é')
  if (told.kind === 'response')
    t.same(JSON.parse(Buffer.from(told.body).toString()), {
      method: 'PUT',
      url: 'http://h.example/invoke/r?a=1&b=x%20y&b=z',
      headers: { 'content-type': 'text/plain', host: 'h.example' },
      body: 'plain é',
    })
  const upper = await run('data', 'Application/JSON', '[1]')
  t.match(upper.kind === 'response' && Buffer.from(upper.body).toString(), '[1]', 'types have no case')
  const bad = await run('data', 'application/json; charset=utf-8', '{')
  t.match(bad, { status: 400 })
  if (bad.kind === 'response')
    t.same(JSON.parse(Buffer.from(bad.body).toString()), { error: 'The request body is not valid JSON' })

  async function run(source: string, type = 'application/json', body = '') {
    const revision = await deploy('r', `exports.handler = (data) => (${source})`)
    const code = `exports.handler = (data) => (${source})`
    const reply = await hosts.invoke({
      functionId: 'r',
      revision,
      invocationId: `r-${revision}`,
      envVersion: 0,
      program: async () => ({ code, sourceMap: null, env: {} }),
      timeoutMs: 10_000,
      start: callStart({ fn: 'r', rev: revision }, `r-${revision}`, {
        method: 'PUT',
        path: '/invoke/r',
        query: { a: '1', b: ['x y', 'z'] },
        headers: { 'content-type': type, host: 'h.example' },
      }),
      body: Buffer.from(body),
    })
    return reply.kind === 'response' ? { ...reply, ...readReplyHead(reply.head) } : reply
  }
})

t.test('console calls are log lines as Node prints them', async (t) => {
  const { deploy, call, logs } = await stage(t, { hosts: 1 })
  const lines: readonly (readonly [call: string, level: string, text: string])[] = [
    ['console.log("a", 1, true, null, undefined)', 'log', 'a 1 true null undefined'],
    ['console.info("%s is %d%%, %j", "x", "42", { a: 1 }, "rest")', 'info', 'x is 42%, {"a":1} rest'],
    ['console.warn({ a: [1, "b", { c: { d: { e: 1 } } }] })', 'warn', "{ a: [ 1, 'b', { c: [Object] } ] }"],
    ['console.debug(new Map([["k", new Set([1])]]))', 'debug', "Map(1) { 'k' => Set(1) { 1 } }"],
    ['console.error([,1], -0, 5n, Symbol("s"), "it\'s")', 'error', "[ <1 empty item>, 1 ] -0 5n Symbol(s) it's"],
    ['const a = { n: 1 }; a.self = a; console.log(a)', 'log', '<ref *1> { n: 1, self: [Circular *1] }'],
    [
      'console.log(class A {}, function f() {}, () => {}, new (class P { x = 1 })())',
      'log',
      '[class A] [Function: f] [Function (anonymous)] P { x: 1 }',
    ],
    [
      'console.log(Object.create(null), new Date(0), /x/g, Uint8Array.of(1, 2))',
      'log',
      '[Object: null prototype] {} 1970-01-01T00:00:00.000Z /x/g Uint8Array(2) [ 1, 2 ]',
    ],
    ['console.log({ get a() { throw 1 }, ["b c"]: "\\n" })', 'log', "{ a: [Getter], 'b c': '\\n' }"],
    ['console.assert(1 === 2, "odd")', 'error', 'Assertion failed odd'],
    ['console.group("g"); console.log("in"); console.groupEnd()', 'log', '  in'],
  ]
  for (const [source, level, text] of lines) {
    await deploy('log', `export function handler() { ${source} }`)
    await call('log')
    await call('log')
    t.ok(
      logs.some((line) => line.level === level && line.text === text),
      `${source}; got ${JSON.stringify(logs.at(-1)?.text)}`,
    )
  }
})

t.test('URLs, forms and texts of any shape come out as Node has them', async (t) => {
  const { deploy, call } = await stage(t, { hosts: 1 })
  await deploy(
    'any',
    `export function handler(texts) {
       const url = (text) => { const u = URL.parse(text, "http://base.example/a/b?c"); return u && [u.href, u.host, u.pathname, u.search, u.hash] }
       return texts.map((text) => [url(text), String(new URLSearchParams(text)), [...new URLSearchParams(text)],
         [...new TextEncoder().encode(text)], new TextDecoder().decode(new TextEncoder().encode(text))]) }`,
  )
  const urlish = fc.string({
    unit: fc.constantFrom(
      ...'aZ0é😀:/?#[]@!$&\'()*+,;=%.~ \t\n\\|<>^`{}"-_',
      '%41',
      '%C3%A9',
      '%F',
      'http://',
      'file:',
      'xn--',
      '\ud800',
    ),
  })
  const texts = fc.sample(fc.oneof(urlish, fc.string({ unit: 'binary' })), { numRuns: 1_000, seed: 4 })
  const { value } = await call('any', texts)
  const expected = texts.map((text) => {
    const u = URL.parse(text, 'http://base.example/a/b?c')
    // Node decodes characters beside a broken escape wrongly; escaped ones it decodes right.
    const ascii = text.toWellFormed().replace(/[^\0-\x7f]+/gu, encodeURIComponent)
    const params = new URLSearchParams(ascii)
    const bytes = new TextEncoder().encode(text)
    return [
      u && [u.href, u.host, u.pathname, u.search, u.hash],
      String(params),
      [...params],
      [...bytes],
      new TextDecoder().decode(bytes),
    ]
  })
  const differing = texts.filter((_, at) => JSON.stringify((value as unknown[])?.[at]) !== JSON.stringify(expected[at]))
  t.same(differing, [])
})

t.test('legacy encodings decode as Node has them, whole and in parts', async (t) => {
  const { deploy, call } = await stage(t, { hosts: 1 })
  await deploy(
    'decode',
    `export function handler({ labels, bytes, cut }) {
       const all = Uint8Array.from(bytes)
       return labels.map((label) => {
         const parts = new TextDecoder(label, { ignoreBOM: true })
         const fatal = new TextDecoder(label, { fatal: true })
         let strict
         try { strict = fatal.decode(all) } catch (error) { strict = error.name }
         return [new TextDecoder(label).encoding, new TextDecoder(label).decode(all), parts.decode(all.subarray(0, cut), { stream: true }) + parts.decode(all.subarray(cut)), strict]
       }) }`,
  )
  const labels =
    'utf-8 ibm866 iso-8859-2 iso-8859-6 iso-8859-8-i iso-8859-16 koi8-r koi8-u macintosh windows-874 windows-1252 ascii x-mac-cyrillic gbk gb18030 utf-16be utf-16le x-user-defined'.split(
      ' ',
    )
  const inputs = fc.sample(fc.uint8Array({ minLength: 2, maxLength: 300 }), { numRuns: 40, seed: 4 })
  const bom = Uint8Array.of(0xef, 0xbb, 0xbf, 0x41, 0xff, 0xfe, 0x42, 0)
  for (const bytes of [bom, bom.subarray(4), ...inputs]) {
    const cut = bytes.length >> 1
    const { value } = await call('decode', { labels, bytes: [...bytes], cut })
    const expected = labels.map((label) => {
      const parts = new TextDecoder(label, { ignoreBOM: true })
      let strict: string
      try {
        strict = new TextDecoder(label, { fatal: true }).decode(bytes)
      } catch (error) {
        strict = (error as Error).name
      }
      const streamed = parts.decode(bytes.subarray(0, cut), { stream: true }) + parts.decode(bytes.subarray(cut))
      return [new TextDecoder(label).encoding, new TextDecoder(label).decode(bytes), streamed, strict]
    })
    if (JSON.stringify(value) !== JSON.stringify(expected)) t.same(value, expected, `bytes ${bytes}`)
  }
  t.same((await call('decode', { labels: ['replacement'], bytes: [], cut: 0 })).code, 'threw')
})

t.test('encodings that Node decodes otherwise decode as the standard has them, whole and byte by byte', async (t) => {
  const { deploy, call } = await stage(t, { hosts: 1 })
  await deploy(
    'decode',
    `export function handler(cases) {
       return cases.map(([label, hex]) => {
         const bytes = Uint8Array.from(hex.split(' '), (byte) => parseInt(byte, 16))
         const parts = new TextDecoder(label)
         let text = ''
         for (const byte of bytes) text += parts.decode(Uint8Array.of(byte), { stream: true })
         return [new TextDecoder(label).decode(bytes), text + parts.decode()] }) }`,
  )
  // Source: the tables and the algorithms of the Encoding standard.
  const cases: readonly (readonly [label: string, bytes: string, text: string])[] = [
    ['euc-kr', 'C7 D1 B1 DB', '한글'],
    ['euc-kr', '81 41 81 42', '갂갃'],
    ['ks_c_5601-1987', 'A2 E6 A2 E7', '€®'],
    ['euc-kr', '81 20 41', '\ufffd A'],
    ['big5', 'A4 A4', '中'],
    ['big5-hkscs', '88 59 C6 D8 C8 FB', 'À¨ø'],
    ['big5', '88 62 88 A3', '\u00ca\u0304\u00ea\u0304'],
    ['big5', '81 40 81 81', '\ufffd@\ufffd'],
    ['shift_jis', '82 A0 B1 80 81 7C', 'あｱ\u0080－'],
    ['euc-jp', 'A4 A2 8F B0 A1 8E B1', 'あ丂ｱ'],
    ['iso-2022-jp', '1B 24 42 24 22 1B 28 42 41', 'あA'],
    ['iso-2022-jp', '1B 24', '\ufffd$'],
    ['utf-8', 'F0 9F 41 E2 82', '\ufffdA\ufffd'],
  ]
  const { value } = await call('decode', cases)
  t.same(
    value,
    cases.map(([, , text]) => [text, text]),
  )
})

t.test('long texts are decoded in pieces, and streams that were left open make room', async (t) => {
  const { deploy, call } = await stage(t, { hosts: 1 })
  await deploy(
    'f',
    `export function handler() {
       const text = 'aé€😀'.repeat(100_000)
       const bytes = new TextEncoder().encode(text)
       const same = new TextDecoder().decode(bytes) === text
       const streams = Array.from({ length: 65 }, () => new TextDecoder())
       for (const stream of streams) stream.decode(Uint8Array.of(0xe2, 0x82), { stream: true })
       const last = (stream) => { try { return stream.decode(Uint8Array.of(0xac)) } catch ({ name }) { return name } }
       return [same, last(streams[0]), last(streams[0]), last(streams[1]), last(streams[64])] }`,
  )
  t.same((await call('f')).value, [true, 'RangeError', '\ufffd', '€', '€'])
})

t.test('keys from outside have bounds', async (t) => {
  const { deploy, call } = await stage(t, { hosts: 1 })
  await deploy(
    'f',
    `export async function handler({ format, bytes, jwk, algorithm, usages }) {
       const data = format === 'jwk' ? jwk : Uint8Array.from(atob(bytes), (char) => char.charCodeAt(0))
       try { return (await crypto.subtle.importKey(format, data, algorithm, true, usages)).type }
       catch ({ name, message }) { return name + ': ' + message } }`,
  )
  const rsa = (bits: number) => {
    const modulus = Buffer.alloc(bits / 8, 0xab)
    return { kty: 'RSA', n: modulus.toString('base64url'), e: 'AQAB' }
  }
  const spki = (bits: number) =>
    createPublicKey({ key: rsa(bits), format: 'jwk' }).export({ type: 'spki', format: 'der' })
  const base64 = (bytes: Buffer) => ({ bytes: bytes.toString('base64') })
  const verify = { algorithm: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }, usages: ['verify'] }
  const hmac = { algorithm: { name: 'HMAC', hash: 'SHA-256' }, usages: ['sign'] }
  const bits = 'NotSupportedError: Keys have at most 1048576 bits here'
  const large = 'NotSupportedError: The key is larger than is used here'
  const cases: readonly (readonly [title: string, key: object, expected: string])[] = [
    ['RSA of 4096 bits', { format: 'jwk', jwk: rsa(4096), ...verify }, 'public'],
    [
      'RSA of 8192 bits',
      { format: 'jwk', jwk: rsa(8192), ...verify },
      'NotSupportedError: RSA keys have at most 4096 bits here',
    ],
    [
      'the same as SPKI',
      { format: 'spki', ...base64(spki(8192)), ...verify },
      'NotSupportedError: RSA keys have at most 4096 bits here',
    ],
    ['a JWK of 20,000 characters', { format: 'jwk', jwk: { kty: 'oct', k: 'A'.repeat(20_000) }, ...hmac }, large],
    [
      'PKCS #8 of 20,000 bytes',
      { format: 'pkcs8', ...base64(Buffer.alloc(20_000)), ...verify, usages: ['sign'] },
      large,
    ],
    ['HMAC of 128 KiB', { format: 'raw', ...base64(Buffer.alloc(131_072, 1)), ...hmac }, 'secret'],
    ['HMAC of a byte more', { format: 'raw', ...base64(Buffer.alloc(131_073, 1)), ...hmac }, bits],
    [
      'HMAC that says so',
      { format: 'raw', ...base64(Buffer.alloc(8)), ...hmac, algorithm: { ...hmac.algorithm, length: 2 ** 21 } },
      bits,
    ],
  ]
  for (const [title, key, expected] of cases) t.equal((await call('f', key)).value, expected, title)
})

t.test('what user code changes does not reach keys, counts or another name', async (t) => {
  const heads: string[] = []
  const { deploy, call } = await stage(t, {
    hosts: 1,
    fetch: async (_function, _name, argument) => {
      heads.push(argument)
      return '!{"name":"TypeError","message":"no"}'
    },
  })
  await deploy(
    'spy',
    `export async function handler() {
       const seen = []
       const key = await crypto.subtle.importKey('raw', new TextEncoder().encode('topsecret'), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
       Object.defineProperty(CryptoKey.prototype, 'extractable', { get: () => true })
       const out = await crypto.subtle.exportKey('raw', key).catch((error) => error.name)
       Object.defineProperty(Object.prototype, 'toJSON', { value: function () { if (this !== undefined && 'material' in this) seen.push('material'); return { forged: true } }, configurable: true, writable: true })
       Array.prototype.toJSON = function () { for (const one of this) if (one && one.material) seen.push('material'); return this }
       await crypto.subtle.sign('HMAC', key, new Uint8Array(1)).catch(() => {})
       await fetch('http://h/').catch(() => {})
       delete Object.prototype.toJSON
       delete Array.prototype.toJSON
       return [out, seen] }`,
  )
  t.same((await call('spy')).value, ['InvalidAccessError', []])
  t.match(JSON.parse(heads[0]!.split('\n')[0]!), { url: 'http://h/', invocationId: /^call-/ })
})

t.test('the sandbox stays small', async (t) => {
  const source = await sandboxSource()
  t.ok(source.length < 60_000, `${source.length} characters`)
})
