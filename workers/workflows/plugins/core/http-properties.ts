import { type Static, Type } from 'typebox'

const Secret = (description: string, example: string) => Type.String({ description, examples: [example] })

const Auth = Type.Union(
  [
    Type.Object(
      {
        type: Type.Literal('basic', { description: 'User name and password', examples: ['basic'] }),
        username: Type.String({ description: 'User name', examples: ['ann'] }),
        password: Secret('Password', '${SHOP.password}'),
      },
      { additionalProperties: false },
    ),
    Type.Object(
      {
        type: Type.Literal('bearer', { description: 'A token', examples: ['bearer'] }),
        token: Secret('Token', '${SHOP_TOKEN}'),
      },
      { additionalProperties: false },
    ),
    Type.Object(
      {
        type: Type.Literal('apiKey', { description: 'A key in a header or in the query', examples: ['apiKey'] }),
        name: Type.String({ description: 'Name of the header or parameter', minLength: 1, examples: ['X-API-Key'] }),
        value: Secret('The key', '${SHOP_KEY}'),
        in: Type.Union([Type.Literal('header'), Type.Literal('query')], {
          description: 'Where it goes',
          default: 'header',
          examples: ['query'],
        }),
      },
      { additionalProperties: false },
    ),
  ],
  {
    description:
      'Who asks: `{type: basic, username, password}`, `{type: bearer, token}` or `{type: apiKey, name, value}`',
    examples: [{ type: 'bearer', token: '${SHOP_TOKEN}' }],
  },
)

const Paging = Type.Object(
  {
    by: Type.Union(
      [Type.Literal('link'), Type.Literal('url'), Type.Literal('cursor'), Type.Literal('page'), Type.Literal('offset')],
      {
        description:
          'Where the next page is: in the header `Link` (rel=next), at a URL in the body, behind a cursor in the body, or under the next number of a page or of an item',
        examples: ['link'],
      },
    ),
    items: Type.Optional(
      Type.String({
        description: 'JSONata: the items in the body of a page; without it the body is the list',
        examples: ['data'],
      }),
    ),
    next: Type.Optional(
      Type.String({
        description: 'JSONata, for `url` and `cursor`: the URL or cursor in the body; null or an empty text is the end',
        examples: ['links.next'],
      }),
    ),
    parameter: Type.Optional(
      Type.String({
        description:
          'The parameter of the query that a cursor or number goes into; by default `cursor`, `page` or `offset`',
        minLength: 1,
        examples: ['after'],
      }),
    ),
    start: Type.Integer({ description: 'Number of the first page', minimum: 0, default: 1, examples: [0] }),
    maxPages: Type.Integer({
      description: 'After how many pages it stops, and says that there are more',
      minimum: 1,
      maximum: 1_000,
      default: 10,
      examples: [100],
    }),
  },
  {
    additionalProperties: false,
    description: 'Asks page by page; the items of all pages are the body',
    examples: [{ by: 'cursor', items: 'data', next: 'cursor' }],
  },
)

export const HttpInput = Type.Object(
  {
    url: Type.String({ description: 'Where to', minLength: 1, examples: ['https://example.com/api/orders'] }),
    method: Type.Union(
      [
        Type.Literal('GET'),
        Type.Literal('HEAD'),
        Type.Literal('POST'),
        Type.Literal('PUT'),
        Type.Literal('PATCH'),
        Type.Literal('DELETE'),
        Type.Literal('OPTIONS'),
      ],
      { description: 'Method', default: 'GET', examples: ['POST'] },
    ),
    query: Type.Record(Type.String(), Type.Unknown(), {
      description: 'Parameters of the query beside those in the URL; a list is a parameter several times, null none',
      default: {},
      examples: [{ status: 'open', tag: ['a', 'b'] }],
    }),
    headers: Type.Record(Type.String(), Type.String(), {
      description: 'Headers',
      default: {},
      examples: [{ Accept: 'application/json' }],
    }),
    auth: Type.Optional(Auth),
    body: Type.Optional(
      Type.Unknown({
        description:
          'What is sent; for `multipart` an object whose values are texts or `{file, filename, contentType}`, for `file` the URI of a file of another task',
        examples: [{ name: 'Ann' }],
      }),
    ),
    bodyType: Type.Union(
      [
        Type.Literal('auto'),
        Type.Literal('json'),
        Type.Literal('form'),
        Type.Literal('multipart'),
        Type.Literal('text'),
        Type.Literal('base64'),
        Type.Literal('file'),
      ],
      {
        description:
          'How it is sent; `auto`: a text as it is, anything else as JSON; `base64`: the bytes it stands for',
        default: 'auto',
        examples: ['form'],
      },
    ),
    expectedStatus: Type.Array(
      Type.Union([Type.Integer({ minimum: 100, maximum: 599 }), Type.String({ pattern: '^[1-5](xx|[0-9][0-9])$' })]),
      {
        description: 'The statuses that are no failure',
        minItems: 1,
        maxItems: 100,
        default: ['2xx', '3xx'],
        examples: [['2xx', 404]],
      },
    ),
    retries: Type.Integer({
      description:
        'How often a request is sent again: after 408, 425, 429, 5xx and faults of the network, and POST and PATCH after 429, 503 and a refused connection only; `Retry-After` is heeded. What fails then can be tried again by the `retry` of the task',
      minimum: 0,
      maximum: 10,
      default: 2,
      examples: [5],
    }),
    retryOn: Type.Optional(
      Type.Array(Type.Integer({ minimum: 300, maximum: 599 }), {
        description: 'Instead: the statuses after which it is sent again, whatever the method',
        maxItems: 100,
        examples: [[409, 503]],
      }),
    ),
    retryDelay: Type.Union([Type.String(), Type.Number()], {
      description: 'Longest pause before the first retry, then twice as long each time, up to 30 s',
      default: '1s',
      examples: ['200ms'],
    }),
    timeout: Type.Union([Type.String(), Type.Number()], {
      description: 'How long an answer may take',
      default: '30s',
      examples: ['2m'],
    }),
    redirect: Type.Union([Type.Literal('follow'), Type.Literal('manual'), Type.Literal('error')], {
      description: 'Whether up to five redirects are followed, given as they are, or a failure',
      default: 'follow',
      examples: ['manual'],
    }),
    responseType: Type.Union(
      [
        Type.Literal('auto'),
        Type.Literal('json'),
        Type.Literal('text'),
        Type.Literal('base64'),
        Type.Literal('file'),
        Type.Literal('events'),
      ],
      {
        description:
          'What becomes of the body; `auto`: by its content type JSON, JSON lines, a text, or else a file; `events`: server-sent events',
        default: 'auto',
        examples: ['file'],
      },
    ),
    maxBytes: Type.Integer({
      description: 'Largest body of an answer',
      minimum: 1,
      maximum: 67_108_864,
      default: 10_485_760,
      examples: [67_108_864],
    }),
    paging: Type.Optional(Paging),
    events: Type.Object(
      {
        max: Type.Integer({
          description: 'After how many it has enough',
          minimum: 1,
          maximum: 10_000,
          default: 100,
          examples: [1],
        }),
        for: Type.Union([Type.String(), Type.Number()], {
          description: 'After which time it has enough, however many have come',
          default: '10s',
          examples: ['1m'],
        }),
      },
      {
        additionalProperties: false,
        description: 'For `events`: when to stop',
        default: {},
        examples: [{ max: 1, for: '1m' }],
      },
    ),
  },
  { additionalProperties: false },
)

export type HttpInput = Static<typeof HttpInput>
export type PagingInput = Static<typeof Paging>
