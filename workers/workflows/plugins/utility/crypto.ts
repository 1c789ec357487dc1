import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { CryptoInput } from './crypto-properties.ts'

const text = (description: string, example: string) => Type.Optional(Type.String({ description, examples: [example] }))

export const crypto = definePlugin({
  id: 'util.crypto',
  name: 'Crypto',
  category: 'Utility',
  description:
    'Encrypts and decrypts (AES-GCM), signs and verifies (Ed25519, RSA, ECDSA), makes and checks JSON Web Tokens, keys and password hashes (argon2id).',
  input: CryptoInput,
  output: Type.Object({
    text: text(
      'What was encrypted (base64 of nonce, content and tag; with a password a salt before them) or decrypted',
      'a secret',
    ),
    uri: text('The same as a file, of bytes', 'busbar:///files/3q2-7w'),
    sizeBytes: Type.Optional(Type.Integer({ description: 'Its size', examples: [8] })),
    signature: text('The signature, in base64', 'MEUCIQDx'),
    valid: Type.Optional(
      Type.Boolean({ description: 'Whether the signature, token or password is right', examples: [true] }),
    ),
    reason: Type.Optional(
      Type.Union([Type.String(), Type.Null()], { description: 'What is wrong with it', examples: [null] }),
    ),
    token: text('The token', 'eyJhbGciOiJIUzI1NiJ9'),
    claims: Type.Optional(Type.Unknown({ description: 'What a token says', examples: [{ sub: 'ann' }] })),
    header: Type.Optional(Type.Unknown({ description: 'What a token says of itself', examples: [{ alg: 'HS256' }] })),
    key: text('Random bytes, in base64', 'c2VjcmV0'),
    publicKey: text('PEM', '-----BEGIN PUBLIC KEY-----'),
    privateKey: text('PEM (PKCS #8)', '-----BEGIN PRIVATE KEY-----'),
    passwordHash: text('To be kept in place of the password', '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA'),
  }),
  example: `name: token
tasks:
  - name: key
    type: util.crypto
    properties:
      operation: generate-key
  - name: sign
    type: util.crypto
    properties:
      operation: jwt-sign
      key: '{{ outputs.key.key }}'
      claims: { sub: ann }
      expiresIn: 15m
  - name: check
    type: util.crypto
    properties:
      operation: jwt-verify
      key: '{{ outputs.key.key }}'
      token: '{{ outputs.sign.token }}'
`,
  async run(task) {
    const { operation } = task.input
    if (operation.startsWith('jwt-')) return await (await import('./crypto-tokens.ts')).onToken(task)
    if (operation === 'encrypt' || operation === 'decrypt')
      return await (await import('./crypto-cipher.ts')).onCipher(task)
    if (operation === 'sign' || operation === 'verify')
      return await (await import('./crypto-signatures.ts')).onSignature(task)
    if (operation === 'generate-key') return await (await import('./crypto-signatures.ts')).newKey(task.input)
    return await (await import('./crypto-passwords.ts')).onPassword(task)
  },
})
