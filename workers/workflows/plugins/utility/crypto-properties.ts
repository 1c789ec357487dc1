import { type Static, Type } from 'typebox'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { contentProperties, ToFile } from '../content.ts'

export const CryptoInput = Type.Object(
  {
    operation: Type.Enum(
      [
        'encrypt',
        'decrypt',
        'sign',
        'verify',
        'jwt-sign',
        'jwt-verify',
        'jwt-decode',
        'generate-key',
        'hash-password',
        'verify-password',
      ],
      {
        description:
          '`encrypt` and `decrypt` by AES-GCM; `sign` and `verify` with a key pair; JSON Web Tokens (`jwt-decode` checks nothing); keys from the random numbers of the system; passwords by argon2id. For HMACs there is transform.hash',
        examples: ['jwt-verify'],
      },
    ),
    ...contentProperties('What to encrypt, decrypt (base64), sign or verify', 'a secret'),
    key: Type.Optional(
      Type.Union([Type.String(), Type.Record(Type.String(), Type.Unknown())], {
        description:
          'Of AES: 16, 24 or 32 bytes in base64 or hex. Of signatures: PEM or JWK. Of tokens: a text for HS256, PEM, JWK or a set of JWKs',
        examples: ['${SIGNING_KEY}'],
      }),
    ),
    password: Type.Optional(
      Type.String({
        description: 'Of AES: in place of a key, made into one by scrypt; of passwords: the password',
        maxLength: 4_096,
        examples: ['${PASSWORD}'],
      }),
    ),
    additionalData: Type.Optional(
      Type.String({
        description: 'Of AES: what has to be the same when decrypting, and is not encrypted',
        examples: ['order 1'],
      }),
    ),
    algorithm: Type.Optional(
      Type.Enum(
        [
          'ed25519',
          'rsa-sha256',
          'rsa-pss-sha256',
          'ecdsa-sha256',
          'HS256',
          'HS384',
          'HS512',
          'RS256',
          'RS384',
          'RS512',
          'PS256',
          'PS384',
          'PS512',
          'ES256',
          'ES384',
          'ES512',
          'EdDSA',
        ],
        {
          description:
            'Of signatures one of the first four, by default what the key is for (RSA: rsa-pss-sha256); of tokens one of the others, HS256 by default. A token that says another is refused',
          examples: ['RS256'],
        },
      ),
    ),
    signature: Type.Optional(Type.String({ description: 'Of verify: in base64', examples: ['MEUCIQDx'] })),
    token: Type.Optional(
      Type.String({
        description: 'Of jwt-verify and jwt-decode',
        maxLength: 100_000,
        examples: ['eyJhbGciOiJIUzI1NiJ9'],
      }),
    ),
    claims: Type.Record(Type.String(), Type.Unknown(), {
      description: 'Of jwt-sign: what the token says',
      default: {},
      examples: [{ sub: 'ann', role: 'admin' }],
    }),
    expiresIn: Type.Optional(
      Type.Union([Type.String(), Type.Integer({ minimum: 1 })], {
        description: 'Of jwt-sign: how long it holds, `15m` or milliseconds; without end by default',
        examples: ['15m'],
      }),
    ),
    issuer: Type.Optional(Type.String({ description: 'Of tokens: who issues them', examples: ['busbar'] })),
    audience: Type.Optional(Type.String({ description: 'Of tokens: for whom they are', examples: ['shop'] })),
    keyId: Type.Optional(Type.String({ description: 'Of jwt-sign: which key it was (`kid`)', examples: ['2027-01'] })),
    jwksUrl: Type.Optional(
      Type.String({
        description: 'Of jwt-verify: where the keys of the issuer are, in place of `key`',
        examples: ['https://login.example.org/.well-known/jwks.json'],
      }),
    ),
    clockTolerance: Type.Integer({
      description: 'Of jwt-verify: by how many seconds clocks may differ',
      default: 5,
      minimum: 0,
      maximum: 600,
      examples: [0],
    }),
    keyType: Type.Enum(['bytes', 'ed25519', 'rsa', 'ec-p256'], {
      description: 'Of generate-key: random bytes in base64, or a key pair as PEM',
      default: 'bytes',
      examples: ['ed25519'],
    }),
    keyBits: Type.Optional(
      Type.Enum([128, 192, 256, 384, 512, 2048, 3072, 4096], {
        description: 'Of generate-key: 256 for bytes and 3072 for rsa by default',
        examples: [512],
      }),
    ),
    passwordHash: Type.Optional(
      Type.String({
        description: 'Of verify-password: what hash-password gave',
        maxLength: 1_000,
        examples: ['$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA'],
      }),
    ),
    memoryKb: Type.Integer({
      description: 'Of hash-password: how much memory a guess takes',
      default: 19_456,
      minimum: 8_192,
      maximum: 262_144,
      examples: [65_536],
    }),
    iterations: Type.Integer({
      description: 'Of hash-password: how often it is gone through',
      default: 2,
      minimum: 1,
      maximum: 20,
      examples: [3],
    }),
    failWhenInvalid: Type.Boolean({
      description: 'Whether a signature, token or password that is not right fails the task; else `valid` tells',
      default: true,
      examples: [false],
    }),
    toFile: ToFile,
  },
  { additionalProperties: false },
)

export type CryptoInput = Static<typeof CryptoInput>
export type CryptoRun = TaskRun<CryptoInput>

/** What a check gives. @throws {TaskFailure} `refused` when it is to fail */
export function judged<Told extends object>({ failWhenInvalid }: CryptoInput, reason: string | null, told: Told) {
  if (reason !== null && failWhenInvalid) throw new TaskFailure('refused', reason)
  return { valid: reason === null, reason, ...told }
}
