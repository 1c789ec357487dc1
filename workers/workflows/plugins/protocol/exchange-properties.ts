import { type Static, Type } from 'typebox'
import { accountProperties, TlsSettings } from '../server-properties.ts'

/** What is said to a server and what is waited for. */
export const ExchangeInput = Type.Object(
  {
    url: Type.String({
      description:
        'Where to: `wss://` or `ws://` for WebSocket, `tls://` or `tcp://` for lines of text, `dns://server/name?type=MX` for records (without a server the one of the machine)',
      examples: ['wss://example.com/socket'],
    }),
    ...accountProperties,
    tls: Type.Optional(TlsSettings),
    headers: Type.Record(Type.String(), Type.String(), {
      description: 'WebSocket: headers of the first request',
      default: {},
      examples: [{ Authorization: 'Bearer ${TOKEN}' }],
    }),
    subprotocols: Type.Array(Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" }), {
      description: 'WebSocket: protocols that are offered',
      default: [],
      examples: [['graphql-transport-ws']],
    }),
    message: Type.Optional(
      Type.Unknown({ description: 'What is sent: a text; anything else as JSON', examples: [{ type: 'ping' }] }),
    ),
    messages: Type.Array(Type.Unknown(), {
      description: 'Or several, in order',
      default: [],
      maxItems: 1_000,
      examples: [[{ type: 'connection_init' }, { type: 'ping' }]],
    }),
    file: Type.Optional(
      Type.String({
        description: 'Or the bytes of a file of another task, at the end',
        examples: ['{{ outputs.render.uri }}'],
      }),
    ),
    match: Type.Optional(
      Type.String({
        description: 'Pattern of replies that count (RE2 syntax); others are left out',
        maxLength: 1_000,
        examples: ['"type":"pong"'],
      }),
    ),
    maxMessages: Type.Integer({
      description: 'How many replies are waited for; 0 for none: then the connection is what is tried',
      default: 1,
      minimum: 0,
      maximum: 10_000,
      examples: [0],
    }),
    waitMs: Type.Integer({
      description: 'Longest wait for replies, milliseconds; what came until then is given, none at all fails the task',
      default: 10_000,
      minimum: 1,
      maximum: 3_600_000,
      examples: [60_000],
    }),
    maxBytes: Type.Integer({
      description: 'More bytes of replies than this fail the task',
      default: 4_194_304,
      minimum: 1,
      maximum: 67_108_864,
      examples: [65_536],
    }),
  },
  { additionalProperties: false },
)
export type ExchangeInput = Static<typeof ExchangeInput>

export const ExchangeOutput = Type.Object({
  messages: Type.Array(Type.Unknown(), {
    description: 'Replies: text as it is, other bytes in base64; lines without their ends, records of DNS as they are',
    examples: [[{ payload: '{"type":"pong"}', encoding: 'utf8' }]],
  }),
  subprotocol: Type.Union([Type.String(), Type.Null()], {
    description: 'WebSocket: the protocol that was chosen',
    examples: ['graphql-transport-ws'],
  }),
  closed: Type.Unknown({
    description: 'WebSocket: code and reason, when the server closed it first',
    examples: [{ code: 1000, reason: 'bye' }],
  }),
  address: Type.Union([Type.String(), Type.Null()], {
    description: 'What was connected to',
    examples: ['192.0.2.7:443'],
  }),
  connectMs: Type.Number({ description: 'How long it took to connect', examples: [12] }),
  certificate: Type.Unknown({
    description: 'Of TLS: version, and whom the certificate is for, by whom, until when and whether it is right',
    examples: [
      {
        version: 'TLSv1.3',
        subject: 'example.com',
        issuer: 'Example CA',
        validTo: '2027-06-01T00:00:00.000Z',
        isRight: true,
      },
    ],
  }),
})
