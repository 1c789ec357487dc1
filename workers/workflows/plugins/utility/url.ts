import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { needed } from '../content.ts'

const Input = Type.Object(
  {
    operation: Type.Enum(['parse', 'build', 'resolve', 'query', 'encode', 'decode'], {
      description:
        '`parse` a URL into its parts; `build` one of parts; `resolve` one against `base`; `query`: make a query string of `parameters`, or read the one in `text`; `encode` and `decode` a text',
      default: 'parse',
      examples: ['build'],
    }),
    url: Type.Optional(
      Type.String({
        description: 'What to parse, to resolve, or to build on',
        maxLength: 100_000,
        examples: ['https://example.org/films?page=2'],
      }),
    ),
    base: Type.Optional(
      Type.String({ description: 'What to resolve against', maxLength: 100_000, examples: ['https://example.org/a/'] }),
    ),
    protocol: Type.Optional(Type.String({ description: 'Of build', examples: ['https'] })),
    host: Type.Optional(Type.String({ description: 'Of build: host and port', examples: ['example.org:8443'] })),
    username: Type.Optional(Type.String({ description: 'Of build', examples: ['ann'] })),
    password: Type.Optional(Type.String({ description: 'Of build', examples: ['${API_PASSWORD}'] })),
    path: Type.Optional(
      Type.Union([Type.String(), Type.Array(Type.String())], {
        description: 'Of build: a path, or a list of its segments, each of which is encoded',
        examples: [['films', 'a/b']],
      }),
    ),
    parameters: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'Of build and query: a list gives a parameter for each, null none; anything else as JSON',
        examples: [{ page: 2, tag: ['a', 'b'] }],
      }),
    ),
    fragment: Type.Optional(Type.String({ description: 'Of build: what comes after #', examples: ['top'] })),
    text: Type.Optional(
      Type.String({ description: 'What to encode or decode, or the query to read', examples: ['a b/ü'] }),
    ),
    as: Type.Enum(['component', 'form', 'whole'], {
      description:
        'Of encode and decode: `component`: for one part of a URL; `form`: the same with + for a blank; `whole`: what divides a URL stays',
      default: 'component',
      examples: ['form'],
    }),
  },
  { additionalProperties: false },
)

type Input = Static<typeof Input>

const optionalText = (description: string, example: string) => {
  return Type.Optional(Type.String({ description, examples: [example] }))
}

/** Source: https://url.spec.whatwg.org/ */
export const url = definePlugin({
  id: 'util.url',
  name: 'URL',
  category: 'Utility',
  description:
    'Takes URLs and query strings apart and puts them together, resolves links, and encodes and decodes texts.',
  effect: 'pure',
  input: Input,
  output: Type.Object({
    url: optionalText('The URL, as browsers write it', 'https://example.org/films?page=2'),
    text: optionalText('What was encoded or decoded, or the query string', 'a%20b'),
    protocol: optionalText('Without the colon', 'https'),
    origin: optionalText('Protocol, host and port', 'https://example.org'),
    username: optionalText('Who asks', 'ann'),
    password: optionalText('With which password', ''),
    host: optionalText('Host and port', 'example.org'),
    hostname: optionalText('Host', 'example.org'),
    port: Type.Optional(
      Type.Union([Type.Integer(), Type.Null()], {
        description: 'Its port, that of the protocol if it names none',
        examples: [443],
      }),
    ),
    path: optionalText('The path', '/films'),
    segments: Type.Optional(Type.Array(Type.String(), { description: 'The path, decoded', examples: [['films']] })),
    query: Type.Optional(
      Type.Record(Type.String(), Type.Union([Type.String(), Type.Array(Type.String())]), {
        description: 'The parameters; a list for one that is there several times',
        examples: [{ page: '2' }],
      }),
    ),
    fragment: optionalText('What comes after #', 'top'),
  }),
  example: `name: take-apart
tasks:
  - name: parts
    type: util.url
    properties:
      url: https://example.org:8443/films/1?tag=a&tag=b#top
`,
  run: async ({ input }) => operations[input.operation](input),
})

const defaultPorts: Readonly<Record<string, number>> = { http: 80, https: 443, ws: 80, wss: 443, ftp: 21 }

const operations = {
  parse: (input: Input) => partsOf(urlAt(needed(input.url, 'url', 'parse'), 'url')),
  build: (input: Input) => partsOf(built(input)),
  resolve({ url, base }: Input) {
    const from = urlAt(needed(base, 'base', 'resolve'), 'base')
    return partsOf(urlAt(needed(url, 'url', 'resolve'), 'url', from))
  },
  query({ text, parameters }: Input) {
    if (parameters === undefined) return { query: queryOf(new URLSearchParams(needed(text, 'text', 'query'))) }
    const search = new URLSearchParams()
    addParameters(search, parameters)
    return { text: search.toString(), query: queryOf(search) }
  },
  encode: ({ text, as }: Input) => ({ text: encoded(needed(text, 'text', 'encode'), as) }),
  decode({ text, as }: Input) {
    const given = needed(text, 'text', 'decode')
    try {
      if (as === 'whole') return { text: decodeURI(given) }
      return { text: decodeURIComponent(as === 'form' ? given.replaceAll('+', ' ') : given) }
    } catch (cause) {
      throw new TaskFailure('refused', 'properties.text is not percent-encoded UTF-8', cause)
    }
  },
}

function encoded(text: string, as: Input['as']): string {
  if (!text.isWellFormed()) throw new TaskFailure('refused', 'properties.text has half a character')
  if (as === 'whole') return encodeURI(text)
  const component = encodeURIComponent(text).replace(/[!'()*]/g, (sign) => {
    return `%${sign.charCodeAt(0).toString(16).toUpperCase()}`
  })
  return as === 'form' ? component.replaceAll('%20', '+') : component
}

function urlAt(text: string, name: string, base?: URL): URL {
  if (URL.canParse(text, base)) return new URL(text, base)
  throw new TaskFailure('refused', `properties.${name} is no URL: ${JSON.stringify(text.slice(0, 200))}`)
}

function built(input: Input): URL {
  const { protocol, host, username, password, path, parameters, fragment } = input
  const made = new URL(
    input.url === undefined ? `${schemeOf(protocol ?? 'https')}://${hostOf(host)}` : urlAt(input.url, 'url'),
  )
  if (input.url !== undefined) {
    if (protocol !== undefined) made.protocol = schemeOf(protocol)
    if (host !== undefined) made.host = hostOf(host)
  }
  if (username !== undefined) made.username = username
  if (password !== undefined) made.password = password
  if (path !== undefined) {
    made.pathname = typeof path === 'string' ? path : path.map((segment) => encoded(segment, 'component')).join('/')
  }
  if (parameters !== undefined) {
    for (const name of Object.keys(parameters)) made.searchParams.delete(name)
    addParameters(made.searchParams, parameters)
  }
  if (fragment !== undefined) made.hash = fragment
  return made
}

function schemeOf(protocol: string): string {
  const scheme = protocol.replace(/:(\/\/)?$/, '')
  if (/^[A-Za-z][A-Za-z0-9+.-]*$/.test(scheme)) return scheme
  throw new TaskFailure('refused', 'properties.protocol is none')
}

/** Nothing but a host and a port: what else could be in there would go somewhere else. */
function hostOf(given: string | undefined): string {
  const host = needed(given, 'host', 'build')
  const isHost = /^(\[[0-9A-Fa-f:.]+\]|[^\s/?#@\\:[\]]+)(:\d{1,5})?$/.test(host)
  if (isHost && URL.canParse(`http://${host}`)) return host
  throw new TaskFailure('refused', 'properties.host is none')
}

function addParameters(search: URLSearchParams, parameters: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each === null || each === undefined) continue
      search.append(name, typeof each === 'object' ? JSON.stringify(each) : String(each))
    }
  }
}

function queryOf(search: URLSearchParams): Record<string, string | string[]> {
  const names = [...new Set(search.keys())]
  return Object.fromEntries(
    names.map((name) => {
      const values = search.getAll(name)
      return [name, values.length === 1 ? values[0]! : values]
    }),
  )
}

function partsOf(url: URL) {
  const protocol = url.protocol.slice(0, -1)
  return {
    url: url.href,
    protocol,
    origin: url.origin,
    username: decodedOrAsItIs(url.username),
    password: decodedOrAsItIs(url.password),
    host: url.host,
    hostname: url.hostname,
    port: url.port === '' ? (defaultPorts[protocol] ?? null) : Number(url.port),
    path: url.pathname,
    segments: url.pathname
      .split('/')
      .filter((segment) => segment !== '')
      .map(decodedOrAsItIs),
    query: queryOf(url.searchParams),
    fragment: decodedOrAsItIs(url.hash.slice(1)),
  }
}

function decodedOrAsItIs(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
