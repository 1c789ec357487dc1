import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pluginId, pluginIdPattern } from '../schemas/workflows/plugin-manifest.ts'
import { catalogue } from '../workers/workflows/catalogue.ts'
import { OperatorError } from './local/operator-error.ts'

/**
 * Writes a plugin of the user's own, and its test, into a folder: it runs as it stands.
 * @returns the two files
 * @throws {OperatorError} for an id that cannot be one or is taken, and when a file is there already
 */
export function newPlugin(id: string, folder: string): readonly [plugin: string, test: string] {
  if (!new RegExp(pluginIdPattern).test(id) || id.length > 100) {
    throw new OperatorError(
      `${id} cannot be the id of a plugin: write <family>.<name> in lower case, such as acme.greet.`,
    )
  }
  if (pluginId(id) !== id || catalogue.some(({ manifest }) => manifest.id === id)) {
    throw new OperatorError(`${id} is a plugin of the platform: take another id.`)
  }
  const file = id.replaceAll('.', '-')
  const paths = [join(folder, `${file}.ts`), join(folder, `${file}.test.ts`)] as const
  mkdirSync(folder, { recursive: true })
  write(paths[0], pluginText(id))
  write(paths[1], testText(id, file))
  return paths
}

function write(path: string, text: string): void {
  try {
    writeFileSync(path, text, { flag: 'wx' })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause
    throw new OperatorError(`${path} is there already.`, { cause })
  }
}

/** `acme.greet-all` is `acmeGreetAll`. */
function exportName(id: string): string {
  return id.replace(/[.-]+(.)/g, (_, letter: string) => letter.toUpperCase()).replace(/[.-]/g, '')
}

function pluginText(id: string): string {
  return `import { definePlugin, TaskFailure, Type } from 'busbar/plugin'

export const ${exportName(id)} = definePlugin({
  id: '${id}',
  name: '${id}',
  category: 'Custom',
  description: 'Greets somebody.',
  // 'pure' may run as often as one likes, 'idempotent' runs again after a crash with the same key, 'once' never does.
  effect: 'pure',
  input: Type.Object(
    {
      name: Type.String({ description: 'Whom to greet', examples: ['Ann'] }),
      greeting: Type.String({ description: 'How', default: 'Hello', examples: ['Good morning'] }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    text: Type.String({ description: 'The greeting', examples: ['Hello, Ann!'] }),
  }),
  example: \`name: greet
tasks:
  - name: greet
    type: ${id}
    properties: { name: Ann }
\`,
  // Besides input and log: signal (stop when it is aborted), idempotencyKey, scratch() (a folder of this attempt), and
  // services: fetch and net under the egress policy, kv, files.
  async run({ input: { name, greeting }, log }) {
    // 'refused' is final; 'unavailable' and 'timeout' can be tried again.
    if (name.trim() === '') throw new TaskFailure('refused', 'properties.name is empty')
    const text = \`\${greeting}, \${name}!\`
    log.info(text)
    return { text }
  },
})
`
}

function testText(id: string, file: string): string {
  const name = exportName(id)
  return `import { deepEqual, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { pluginProblems, tryPlugin } from 'busbar/plugin'
import { ${name} } from './${file}.ts'

test('it can be offered', () => {
  deepEqual(pluginProblems(${name}), [])
})

test('it greets', async () => {
  const { outputs, log } = await tryPlugin(${name}, { name: 'Ann' })
  deepEqual(outputs, { text: 'Hello, Ann!' })
  deepEqual(log, [{ level: 'info', message: 'Hello, Ann!' }])
})

test('it refuses what it cannot do', async () => {
  await rejects(tryPlugin(${name}, { name: ' ' }), { kind: 'refused' })
  await rejects(tryPlugin(${name}, { nome: 'Ann' }), { kind: 'refused' })
})
`
}
