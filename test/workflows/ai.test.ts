import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { checkedInput } from '../../workers/workflows/checked-input.ts'
import type { TaskRun, TaskServices } from '../../workers/workflows/plugin.ts'

let answer: unknown = {}
let seen: { line: string; headers: Record<string, unknown>; body: unknown } | null = null
const server = createServer(async (request, response) => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown
  seen = { line: `${request.method} ${request.url}`, headers: request.headers, body }
  response.writeHead(200, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify(answer))
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
t.teardown(() => server.close())
const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

async function call(id: string, properties: Record<string, unknown>) {
  const plugin = catalogue.find(({ manifest }) => manifest.id === id)!
  const input = checkedInput(plugin, { baseUrl, ...properties })
  const silent = () => undefined
  const services = {
    fetch: globalThis.fetch,
    files: { put: async (bytes: Uint8Array) => ({ uri: 'busbar:///files/x', sizeBytes: bytes.length }) },
  }
  const given: TaskRun<unknown> = {
    input,
    signal: new AbortController().signal,
    log: { debug: silent, info: silent, warn: silent, error: silent },
    idempotencyKey: 'e1/call',
    scratch: async () => '',
    services: services as unknown as TaskServices,
    task: { executionId: 'e1', flowId: 'f', namespace: 'n', run: 'call', attempt: 1 },
  }
  const outputs = await plugin.run(given)
  return { outputs, request: seen! }
}

const schema = { type: 'object', properties: { mood: { type: 'string' } } }
const asked = { prompt: 'How?', system: 'Be short.', temperature: 0, maxTokens: 9 }

t.test('OpenAI', async (t) => {
  answer = {
    choices: [{ message: { content: '{"mood":"good"}' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 2 },
  }
  const { outputs, request } = await call('ai.openai', { model: 'm', ...asked, schema, apiKey: 'k' })
  t.match(request, { line: 'POST /chat/completions', headers: { authorization: 'Bearer k' } })
  t.same(request.body, {
    model: 'm',
    messages: [
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: 'How?' },
    ],
    max_completion_tokens: 9,
    temperature: 0,
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } },
  })
  t.same(outputs, {
    text: '{"mood":"good"}',
    json: { mood: 'good' },
    stopReason: 'stop',
    inputTokens: 5,
    outputTokens: 2,
  })
})

t.test('Anthropic', async (t) => {
  answer = {
    content: [{ type: 'text', text: 'Good.' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 5, output_tokens: 2 },
  }
  const { outputs, request } = await call('ai.anthropic', { model: 'm', ...asked, apiKey: 'k' })
  t.match(request, { line: 'POST /v1/messages', headers: { 'x-api-key': 'k', 'anthropic-version': '2023-06-01' } })
  t.same(request.body, {
    model: 'm',
    max_tokens: 9,
    messages: [{ role: 'user', content: 'How?' }],
    system: 'Be short.',
    temperature: 0,
  })
  t.same(outputs, { text: 'Good.', json: null, stopReason: 'end_turn', inputTokens: 5, outputTokens: 2 })
})

t.test('Gemini', async (t) => {
  answer = {
    candidates: [{ content: { parts: [{ text: '{"mood":' }, { text: '"good"}' }] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2 },
  }
  const { outputs, request } = await call('ai.gemini', { model: 'm', ...asked, schema, apiKey: 'k' })
  t.match(request, { line: 'POST /v1beta/models/m:generateContent', headers: { 'x-goog-api-key': 'k' } })
  t.same(request.body, {
    contents: [{ role: 'user', parts: [{ text: 'How?' }] }],
    systemInstruction: { parts: [{ text: 'Be short.' }] },
    generationConfig: {
      maxOutputTokens: 9,
      temperature: 0,
      responseMimeType: 'application/json',
      responseJsonSchema: schema,
    },
  })
  t.match(outputs, { json: { mood: 'good' }, stopReason: 'STOP' })
})

t.test('Ollama', async (t) => {
  answer = { message: { content: 'Good.' }, done_reason: 'stop', prompt_eval_count: 5, eval_count: 2 }
  const { outputs, request } = await call('ai.ollama', { model: 'm', ...asked })
  t.equal(request.line, 'POST /api/chat')
  t.match(request.body, { model: 'm', stream: false, options: { num_predict: 9, temperature: 0 } })
  t.match(outputs, { text: 'Good.', inputTokens: 5, outputTokens: 2 })
})

t.test('embeddings are in the order of the texts', async (t) => {
  answer = {
    data: [
      { index: 1, embedding: [2] },
      { index: 0, embedding: [1] },
    ],
    usage: { prompt_tokens: 4 },
  }
  const { outputs, request } = await call('ai.embeddings', { model: 'm', texts: ['a', 'b'], dimensions: 1 })
  t.equal(request.line, 'POST /embeddings')
  t.same(request.body, { model: 'm', input: ['a', 'b'], dimensions: 1, encoding_format: 'float' })
  t.same(outputs, { vectors: [[1], [2]], inputTokens: 4 })
})

t.test('a picture becomes a file', async (t) => {
  answer = { data: [{ b64_json: Buffer.from('png').toString('base64') }] }
  const { outputs, request } = await call('ai.image', { model: 'm', prompt: 'a cat' })
  t.same(request.body, { model: 'm', prompt: 'a cat', size: '1024x1024', n: 1 })
  t.same(outputs, { uri: 'busbar:///files/x', sizeBytes: 3 })
})

t.test('an answer that should be JSON and is not can be tried again', async (t) => {
  answer = { message: { content: 'Sorry' } }
  await t.rejects(call('ai.ollama', { model: 'm', prompt: 'x', schema }), {
    message: 'The model answered with something that is not JSON',
  })
  answer = { message: { content: '```json\n{"a":1}\n```' } }
  t.match((await call('ai.ollama', { model: 'm', prompt: 'x', schema })).outputs, { json: { a: 1 } })
})

t.test('nothing to ask is refused by name', async (t) => {
  await t.rejects(call('ai.ollama', { model: 'm' }), { message: 'properties needs a prompt or messages' })
})
