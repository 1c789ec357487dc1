import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { findProgram, mayRun } from './script-account.ts'
import { languageOf, type ScriptLanguage } from './script-language.ts'
import { ScriptOutput, scriptProperties } from './script-properties.ts'
import { runScript } from './script-run.ts'

const languages: Readonly<Record<'sh' | 'bash' | 'node', ScriptLanguage>> = {
  sh: languageOf('sh', 'main.sh', ['-e'], { image: 'alpine:3', inline: [['-c'], ['sh']] }),
  bash: languageOf('bash', 'main.sh', ['-e'], { image: 'bash:5', inline: [['-c'], ['bash']] }),
  node: {
    name: 'node',
    file: 'main.mjs',
    program: (account) => (mayRun(process.execPath, account) ? process.execPath : findProgram('node', account)),
    flags: (folder, memoryMb) => [
      '--permission',
      `--allow-fs-read=${folder}/*`,
      `--allow-fs-write=${folder}/*`,
      `--max-old-space-size=${memoryMb}`,
      '--disable-warning=SecurityWarning',
    ],
    memoryOf: 'data',
    // Stacks of its threads, its code, and what lies beside the heap.
    baseMemoryMb: 256,
    inContainer: { image: 'node:24-alpine', command: ['node'], inline: [['--input-type=module', '-e'], []] },
  },
}

export const shell = definePlugin({
  id: 'script.shell',
  name: 'Shell script',
  category: 'Core',
  description:
    'Runs a script of a shell, or JavaScript in Node, in an empty folder as a user of its own, within limits; or a script or command in a container, or in Kubernetes as a job, with manifests that are applied first. What it writes is logged; it ends with the task, with all that it has started.',
  needs:
    'app.workflows.scripts=true, which `busbar up` sets on a loopback address; a worker that is root gives each script a user of its own, any other runs it as itself. Containers need an engine that speaks the API of Docker (app.workflows.containers), Kubernetes the address of a cluster; both are tested at the level of their protocols, Kubernetes also against an API server that a test is given',
  input: Type.Object(
    {
      ...scriptProperties('wc -l < orders.csv'),
      language: Type.Union([Type.Literal('sh'), Type.Literal('bash'), Type.Literal('node')], {
        description:
          'What runs it: a shell, which stops at the first command that fails, or Node (an ES module that reaches its folder only)',
        default: 'sh',
        examples: ['node'],
      }),
    },
    { additionalProperties: false },
  ),
  output: ScriptOutput,
  example: `name: count-lines
tasks:
  - name: count
    type: script.shell
    properties:
      files:
        orders.csv: |
          id,price
          1,20
          2,30
      script: |
        lines=$(wc -l < orders.csv)
        echo "{\\"orders\\": $((lines - 1))}"
  - name: tell
    type: util.log
    properties: { message: '{{ outputs.count.outputs.orders }} orders' }
`,
  run: (task) => runScript(task, languages[task.input.language]),
})
