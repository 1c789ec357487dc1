import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { needed } from '../content.ts'

const Input = Type.Object(
  {
    operation: Type.Enum(['generate', 'inspect'], {
      description: '`generate` ids, or say what one is',
      default: 'generate',
      examples: ['inspect'],
    }),
    kind: Type.Enum(['v4', 'v7', 'v5', 'ulid', 'nanoid'], {
      description:
        'v4: random; v7: in the order of time; v5: always the same for a name; ulid: in the order of time, 26 characters; nanoid: short and random',
      default: 'v4',
      examples: ['v7'],
    }),
    count: Type.Integer({ description: 'How many', default: 1, minimum: 1, maximum: 10_000, examples: [3] }),
    namespace: Type.String({
      description: 'Of v5: `dns`, `url`, `oid`, `x500`, or a UUID',
      default: 'url',
      examples: ['dns'],
    }),
    name: Type.Optional(Type.String({ description: 'Of v5: the name', examples: ['https://example.org/'] })),
    length: Type.Integer({
      description: 'Of nanoid: how many characters',
      default: 21,
      minimum: 4,
      maximum: 256,
      examples: [12],
    }),
    alphabet: Type.Optional(
      Type.String({
        description: 'Of nanoid: its characters; A-Z, a-z, 0-9, _ and - by default',
        minLength: 2,
        maxLength: 255,
        examples: ['0123456789abcdef'],
      }),
    ),
    id: Type.Optional(
      Type.String({ description: 'What to inspect', examples: ['019376a8-2f3e-7c9a-b6d4-0123456789ab'] }),
    ),
  },
  { additionalProperties: false },
)

type Input = Static<typeof Input>

/** Source: RFC 9562, appendix A of RFC 4122 */
const namespaces: Readonly<Record<string, string>> = {
  dns: '6ba7b810-9dad-11d1-80b4-00c04fd430c8',
  url: '6ba7b811-9dad-11d1-80b4-00c04fd430c8',
  oid: '6ba7b812-9dad-11d1-80b4-00c04fd430c8',
  x500: '6ba7b814-9dad-11d1-80b4-00c04fd430c8',
}

export const uuid = definePlugin({
  id: 'util.uuid',
  name: 'UUID',
  category: 'Utility',
  description:
    'Makes ids: UUIDs of version 4, 5 and 7, ULIDs and nano ids; and says what an id is and when it was made.',
  effect: 'pure',
  input: Input,
  output: Type.Object({
    id: Type.String({ description: 'The id, or the first one', examples: ['019376a8-2f3e-7c9a-b6d4-0123456789ab'] }),
    ids: Type.Optional(Type.Array(Type.String(), { description: 'All of them', examples: [[]] })),
    kind: Type.Union([Type.String(), Type.Null()], {
      description: 'What kind it is; null for an inspected one that is none',
      examples: ['v7'],
    }),
    at: Type.Optional(
      Type.Union([Type.String(), Type.Null()], {
        description: 'When an inspected id was made, if it tells',
        examples: ['2027-01-01T00:00:00.000Z'],
      }),
    ),
  }),
  example: `name: new-ids
tasks:
  - name: ids
    type: util.uuid
    properties:
      kind: v7
      count: 3
`,
  async run({ input }) {
    if (input.operation === 'inspect') return await inspected(needed(input.id, 'id', 'inspect').trim())
    const next = await makerOf(input)
    const ids = Array.from({ length: input.count }, () => next())
    return { id: ids[0]!, ids, kind: input.kind }
  },
})

async function makerOf({ kind, name, namespace, length, alphabet }: Input): Promise<() => string> {
  if (kind === 'ulid') return (await import('ulid')).monotonicFactory()
  if (kind === 'nanoid') {
    const { customAlphabet, nanoid } = await import('nanoid')
    return alphabet === undefined ? () => nanoid(length) : customAlphabet(alphabet, length)
  }
  const { v4, v5, v7, validate } = await import('uuid')
  if (kind === 'v4') return v4
  if (kind === 'v7') return v7
  const space = namespaces[namespace.toLowerCase()] ?? namespace
  if (!validate(space))
    throw new TaskFailure('refused', 'properties.namespace is neither dns, url, oid, x500 nor a UUID')
  const named = needed(name, 'name', 'v5')
  return () => v5(named, space)
}

async function inspected(id: string) {
  const { validate, version } = await import('uuid')
  if (validate(id)) return { id, kind: `v${version(id)}`, at: timeOf(id) }
  const { decodeTime, isValid } = await import('ulid')
  if (isValid(id)) return { id, kind: 'ulid', at: new Date(decodeTime(id)).toISOString() }
  return { id, kind: null, at: null }
}

/** The first 48 bits of a version 7 are milliseconds; a version 1 counts 100 ns from 1582. */
function timeOf(id: string): string | null {
  const digits = id.replaceAll('-', '')
  if (digits[12] === '7') return new Date(Number.parseInt(digits.slice(0, 12), 16)).toISOString()
  if (digits[12] !== '1' && digits[12] !== '6') return null
  const [low, middle, high] = [digits.slice(0, 8), digits.slice(8, 12), digits.slice(13, 16)]
  const ticks = digits[12] === '1' ? `${high}${middle}${low}` : `${low}${middle}${high}`
  return new Date(Number(BigInt(`0x${ticks}`) / 10_000n - 12_219_292_800_000n)).toISOString()
}
