import { Type } from 'typebox'
import { defineControl } from '../../plugin.ts'
import { Concurrency, OnFailure } from '../group-properties.ts'

export const parallel = defineControl({
  id: 'core.parallel',
  name: 'Parallel',
  category: 'Core',
  description:
    'Runs a group of tasks at the same time, or one by one with `concurrency: 1`. `errors` beside `tasks` run when one has failed, and the group then counts as successful; `finally` runs in any case.',
  blocks: ['tasks', 'errors', 'finally'],
  input: Type.Object({ concurrency: Concurrency, onFailure: OnFailure }, { additionalProperties: false }),
  output: Type.Object({ branch: Type.String({ description: 'Always `tasks`', examples: ['tasks'] }) }),
  example: `name: both
tasks:
  - name: group
    type: core.parallel
    tasks:
      - name: left
        type: util.log
        properties: { message: left }
      - name: right
        type: util.log
        properties: { message: right }
    finally:
      - name: through
        type: util.log
        properties: { message: both are through }
`,
  decide: ({ input: { concurrency, onFailure } }) => ({ kind: 'block', block: 'tasks', concurrency, onFailure }),
})
