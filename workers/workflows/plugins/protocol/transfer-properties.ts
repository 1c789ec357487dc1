import { type Static, Type } from 'typebox'
import { accountProperties, TlsSettings } from '../server-properties.ts'

const operations = {
  list: 'What is in a folder',
  get: 'Gets a file, for other tasks to read',
  put: 'Puts a file; one of the same name is replaced, and never seen half',
  delete: 'Deletes a file',
  rename: 'Gives a file another path; a file that is there is replaced',
  makeFolder: 'Makes a folder, and those on the way',
  deleteFolder: 'Deletes an empty folder',
  command: 'Runs a command over SSH',
  clone: 'Git: all files of a commit, as a .tar.gz; links and submodules are left out',
  commit: 'Git: changes files as one commit and pushes it',
} as const
const names = Object.keys(operations) as (keyof typeof operations)[]

const protocols = {
  ftp: 'FTP, not encrypted',
  ftpes: 'FTP that changes to TLS',
  ftps: 'FTP with TLS from the start',
  sftp: 'files over SSH',
  webdav: 'HTTP with folders',
  s3: 'S3 or what speaks its protocol; folders are prefixes',
  git: 'a Git repository over HTTP: what changes is committed and pushed',
} as const
export type TransferProtocol = keyof typeof protocols

/** What is asked of a server that holds files. */
export const TransferInput = Type.Object(
  {
    url: Type.String({
      description:
        'The server: `ftp://`, `ftpes://`, `ftps://`, `sftp://`, or `https://` for WebDAV, S3 (with the bucket) and Git (with the repository)',
      examples: ['sftp://files.example.com'],
    }),
    protocol: Type.Optional(
      Type.Union(
        (Object.keys(protocols) as TransferProtocol[]).map((each) =>
          Type.Literal(each, { description: protocols[each] }),
        ),
        { description: 'What it speaks; default: what the URL begins with', examples: ['webdav'] },
      ),
    ),
    ...accountProperties,
    tls: Type.Optional(TlsSettings),
    privateKey: Type.Optional(
      Type.String({
        description: 'SFTP: private key, OpenSSH or PEM, in place of a password',
        examples: ['${SSH.key}'],
      }),
    ),
    passphrase: Type.Optional(
      Type.String({ description: 'SFTP: what opens the key', examples: ['${SSH.passphrase}'] }),
    ),
    hostKey: Type.Optional(
      Type.String({
        description: 'SFTP: fingerprint the server has to have, as `ssh-keygen -l` writes it; without one any is taken',
        pattern: '^SHA256:[A-Za-z0-9+/]{43}=?$',
        examples: ['SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU'],
      }),
    ),
    region: Type.String({ description: 'S3: region', default: 'us-east-1', examples: ['eu-central-1'] }),
    sessionToken: Type.Optional(
      Type.String({
        description: 'S3: token of temporary keys; `user` and `password` are the keys',
        examples: ['${S3.token}'],
      }),
    ),
    operation: Type.Union(
      names.map((name) => Type.Literal(name, { description: operations[name] })),
      { description: 'What to do', examples: ['get'] },
    ),
    path: Type.Optional(
      Type.String({ description: 'Path on the server; of all but command', examples: ['/in/orders.csv'] }),
    ),
    to: Type.Optional(Type.String({ description: 'New path: rename', examples: ['/done/orders.csv'] })),
    file: Type.Optional(
      Type.String({ description: 'URI of a file of another task: put', examples: ['{{ outputs.export.uri }}'] }),
    ),
    text: Type.Optional(Type.String({ description: 'Or what is put, as a text: put', examples: ['a,b'] })),
    command: Type.Optional(Type.String({ description: 'The command: command', examples: ['df -h'] })),
    ref: Type.Optional(
      Type.String({
        description:
          'Git: the branch, or for reading a tag or commit; without one the branch of the repository. A branch that is not there is made',
        pattern: '^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$',
        examples: ['main'],
      }),
    ),
    files: Type.Optional(
      Type.Record(Type.String({ minLength: 1 }), Type.Union([Type.String(), Type.Null()]), {
        description: 'Git: what is committed, by path: a text, the URI of a file of another task, or null to delete it',
        maxProperties: 10_000,
        examples: [{ 'docs/today.md': 'Sunny', 'docs/old.md': null }],
      }),
    ),
    message: Type.Optional(
      Type.String({
        description: 'Git: what the commit says; the key of the task is added',
        minLength: 1,
        maxLength: 10_000,
        examples: ['Prices of today'],
      }),
    ),
    author: Type.Optional(
      Type.String({
        description: 'Git: who has made the commit',
        pattern: '^[^<>\\n]{1,100} <[^<>\\s]{1,200}>$',
        examples: ['Ada <ada@example.com>'],
      }),
    ),
    maxBytes: Type.Integer({
      description: 'A larger file, or more output of a command, fails the task',
      default: 67_108_864,
      minimum: 1,
      maximum: 67_108_864,
      examples: [1_048_576],
    }),
    timeoutMs: Type.Integer({
      description: 'Longest silence of the server, milliseconds',
      default: 60_000,
      minimum: 1,
      examples: [10_000],
    }),
  },
  { additionalProperties: false },
)
export type TransferInput = Static<typeof TransferInput>

export const TransferOutput = Type.Object({
  files: Type.Array(Type.Unknown(), {
    description: 'What is in the folder',
    examples: [[{ name: 'orders.csv', kind: 'file', sizeBytes: 3, modifiedAt: '2027-01-01T00:00:00.000Z' }]],
  }),
  uri: Type.Union([Type.String(), Type.Null()], {
    description: 'The file that was got',
    examples: ['busbar:///files/3q2-7w'],
  }),
  sizeBytes: Type.Union([Type.Integer(), Type.Null()], { description: 'Size of what was got or put', examples: [3] }),
  sha256: Type.Union([Type.String(), Type.Null()], {
    description: 'Digest of what was got or put, hexadecimal',
    examples: ['2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'],
  }),
  commit: Type.Union([Type.String(), Type.Null()], {
    description: 'Git: the commit that was read or made',
    examples: ['8ab686eafeb1f44702738c8b0f24f2567c36da6d'],
  }),
  exitCode: Type.Union([Type.Integer(), Type.Null()], { description: 'How the command ended', examples: [0] }),
  stdout: Type.String({ description: 'Output of the command', examples: [''] }),
  stderr: Type.String({ description: 'What it said beside', examples: [''] }),
})
