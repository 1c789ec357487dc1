import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { threadModule } from '../thread-module.ts'

const inThread = threadModule<typeof import('./rss-thread.ts')>(new URL('./rss-thread.ts', import.meta.url))

const maxBytes = 16 * 1024 ** 2

/** Source: RSS 2.0, RDF Site Summary 1.0, RFC 4287 (Atom), JSON Feed 1.1; RFC 9110 section 13 for what has not changed */
export const rss = definePlugin({
  id: 'rss.read',
  name: 'RSS',
  category: 'Protocol',
  description:
    'Reads a feed (RSS, Atom, RDF or JSON Feed), newest items first; what is new since a time or since the last time.',
  needs: 'A feed on the web',
  effect: 'pure',
  input: Type.Object(
    {
      url: Type.String({ description: 'The feed', examples: ['https://www.debian.org/News/news'] }),
      headers: Type.Record(Type.String(), Type.String(), {
        description: 'Headers of the request',
        default: {},
        examples: [{ Authorization: 'Bearer ${TOKEN}' }],
      }),
      since: Type.Optional(
        Type.String({
          description: 'Only items that are newer than this time; those without a time are left out',
          format: 'date-time',
          examples: ['2027-01-01T00:00:00Z'],
        }),
      ),
      limit: Type.Integer({ description: 'Most items', default: 100, minimum: 1, maximum: 10_000, examples: [10] }),
      etag: Type.Optional(
        Type.String({
          description: '`etag` of an earlier run: nothing is read when it still holds',
          examples: ['"33a64"'],
        }),
      ),
      lastModified: Type.Optional(
        Type.String({ description: '`lastModified` of an earlier run', examples: ['Fri, 01 Jan 2027 00:00:00 GMT'] }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    isModified: Type.Boolean({ description: 'False when the feed is as it was', examples: [true] }),
    etag: Type.Union([Type.String(), Type.Null()], { description: 'For the next run', examples: ['"33a64"'] }),
    lastModified: Type.Union([Type.String(), Type.Null()], {
      description: 'For the next run',
      examples: ['Fri, 01 Jan 2027 00:00:00 GMT'],
    }),
    feed: Type.Unknown({
      description: 'Its format, title, link and description; null when it is as it was',
      examples: [{ format: 'rss', title: 'News', link: 'https://example.com/', description: 'All of them' }],
    }),
    items: Type.Array(Type.Unknown(), {
      description: 'Items, the same fields whatever the format',
      examples: [[{ id: '1', title: 'New', link: 'https://example.com/1', publishedAt: '2027-01-01T00:00:00.000Z' }]],
    }),
  }),
  example: `name: news
tasks:
  - name: read
    type: rss.read
    properties:
      url: http://localhost:8000/feed.xml
      limit: 5
`,
  async run(given) {
    const { url, headers, since, limit, etag, lastModified } = given.input
    const response = await given.services.fetch(url, {
      signal: given.signal,
      headers: {
        Accept:
          'application/rss+xml, application/atom+xml, application/feed+json, application/xml;q=0.9, application/json;q=0.9, */*;q=0.1',
        ...headers,
        ...(etag !== undefined && { 'If-None-Match': etag }),
        ...(lastModified !== undefined && { 'If-Modified-Since': lastModified }),
      },
    })
    const told = {
      etag: response.headers.get('etag') ?? etag ?? null,
      lastModified: response.headers.get('last-modified') ?? lastModified ?? null,
    }
    if (response.status === 304) return { isModified: false, ...told, feed: null, items: [] }
    if (!response.ok) {
      const passes = response.status === 408 || response.status === 429 || response.status >= 500
      throw new TaskFailure(passes ? 'unavailable' : 'refused', `The feed answered ${response.status}`)
    }
    const bytes = Buffer.from(await response.arrayBuffer())
    if (bytes.length > maxBytes) throw new TaskFailure('refused', `The feed is larger than ${maxBytes} bytes`)
    const charset = /charset="?([\w-]+)/i.exec(response.headers.get('content-type') ?? '')?.[1] ?? null
    const read = await inThread(given, 'read', { bytes, charset, since: since ?? null, limit })
    return { isModified: true, ...told, ...read }
  },
})
