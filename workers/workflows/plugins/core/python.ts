import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { languageOf } from './script-language.ts'
import { ScriptOutput, scriptProperties } from './script-properties.ts'
import { runScript } from './script-run.ts'

/** Without a buffer, so that lines are logged as they are written. */
const python3 = languageOf('python3', 'main.py', ['-u', '-B'], {
  image: 'python:3-alpine',
  inline: [['-c'], []],
})

export const python = definePlugin({
  id: 'script.python',
  name: 'Python script',
  category: 'Core',
  description:
    'Runs a Python script in an empty folder as a user of its own, within limits; or in a container, or in Kubernetes as a job. What it writes is logged; it ends with the task, with all that it has started.',
  needs:
    'python3 on the machine of the worker, and app.workflows.scripts=true, which `busbar up` sets on a loopback address; a worker that is root gives each script a user of its own, any other runs it as itself',
  input: Type.Object(scriptProperties('print(6 * 7)'), { additionalProperties: false }),
  output: ScriptOutput,
  example: `name: add-up
tasks:
  - name: sum
    type: script.python
    properties:
      stdin: '[20, 30]'
      script: |
        import json, sys
        prices = json.load(sys.stdin)
        print(json.dumps({"total": sum(prices)}))
  - name: tell
    type: util.log
    properties: { message: 'Total {{ outputs.sum.outputs.total }}' }
`,
  run: (task) => runScript(task, python3),
})
