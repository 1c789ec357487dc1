import { type Static, Type } from 'typebox'
import { runnerProperties } from './runner-properties.ts'

/** What scripts of every language are given. */
export function scriptProperties(example: string) {
  return {
    script: Type.Optional(
      Type.String({
        description: 'The script itself; a container or a cluster can do without one',
        minLength: 1,
        maxLength: 1_000_000,
        examples: [example],
      }),
    ),
    command: Type.Optional(
      Type.Array(Type.String(), {
        description: 'In place of a script: what runs in the image; without both it is what the image is made for',
        minItems: 1,
        maxItems: 1_000,
        examples: [['psql', '--version']],
      }),
    ),
    ...runnerProperties,
    args: Type.Array(Type.String(), {
      description: 'Its arguments',
      maxItems: 1_000,
      default: [],
      examples: [['--all']],
    }),
    stdin: Type.String({ description: 'What it reads from its standard input', default: '', examples: ['a,b'] }),
    env: Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }), Type.String(), {
      description:
        'Its environment. Besides, there are `PATH`, `HOME`, `LANG`, `TMPDIR`, `BUSBAR_OUTPUT` and `BUSBAR_IDEMPOTENCY_KEY`, and nothing of the worker',
      default: {},
      examples: [{ TOKEN: '${SHOP_TOKEN}' }],
    }),
    files: Type.Record(Type.String(), Type.String(), {
      description: 'Files that it finds in its folder: a name, and a text or the URI of a file of another task',
      default: {},
      examples: [{ 'orders.csv': '{{ outputs.download.uri }}' }],
    }),
    outputFiles: Type.Array(Type.String({ minLength: 1 }), {
      description: 'Files of its folder that are kept: names or patterns, up to 100 files of 64 MB',
      maxItems: 100,
      default: [],
      examples: [['report.pdf', 'parts/*.csv']],
    }),
    exitCodes: Type.Array(Type.Integer({ minimum: 0, maximum: 255 }), {
      description: 'The exit codes that are no failure. 75 (a passing fault) can be tried again, others not',
      minItems: 1,
      maxItems: 256,
      default: [0],
      examples: [[0, 1]],
    }),
    network: Type.Boolean({
      description:
        'Whether it may use the network, of which the egress policy knows nothing; without it the machine must be a Linux that can take it away',
      default: true,
      examples: [false],
    }),
    cpuSeconds: Type.Integer({
      description: 'How long each of its processes may compute',
      minimum: 1,
      maximum: 86_400,
      default: 60,
      examples: [600],
    }),
    memoryMb: Type.Integer({
      description: 'How much memory each of its processes may have',
      minimum: 16,
      maximum: 65_536,
      default: 512,
      examples: [2_048],
    }),
    processes: Type.Integer({
      description: 'How many processes and threads it may have at a time',
      minimum: 1,
      maximum: 4_096,
      default: 64,
      examples: [16],
    }),
    fileMb: Type.Integer({
      description: 'How large each file that it writes may be',
      minimum: 1,
      maximum: 65_536,
      default: 64,
      examples: [512],
    }),
  }
}

const Properties = Type.Object(scriptProperties(''))
export type ScriptInput = Static<typeof Properties>

export const ScriptOutput = Type.Object({
  exitCode: Type.Integer({ description: 'With what it ended', examples: [0] }),
  outputs: Type.Unknown({
    description:
      'The JSON that it wrote into the file `$BUSBAR_OUTPUT`, else its last line if that is a JSON object or list, else null',
    examples: [{ total: 6 }],
  }),
  stdout: Type.String({ description: 'What it wrote, up to 1 MB', examples: ['6\n'] }),
  stderr: Type.String({ description: 'What it wrote of errors, up to 1 MB', examples: [''] }),
  truncated: Type.Boolean({ description: 'Whether it wrote more than that', examples: [false] }),
  files: Type.Record(
    Type.String(),
    Type.Object({
      uri: Type.String({ description: 'For other tasks', examples: ['busbar:///files/3q2-7w'] }),
      sizeBytes: Type.Integer({ description: 'Its size', examples: [11] }),
    }),
    { description: 'The files that were kept, by name', examples: [{}] },
  ),
  objects: Type.Array(Type.Unknown(), {
    description: 'What was applied to a cluster',
    examples: [[{ apiVersion: 'v1', kind: 'ConfigMap', namespace: 'shop', name: 'shop', uid: '0b5c' }]],
  }),
})
