import { Type } from 'typebox'
import { defineControl } from '../../plugin.ts'
import { durationMs } from '../duration.ts'

export const approval = defineControl({
  id: 'core.approval',
  name: 'Approval',
  category: 'Core',
  description:
    'Asks somebody. The execution waits until the gate is approved or rejected through the API, or its time is over; a rejection fails the task.',
  blocks: [],
  input: Type.Object(
    {
      message: Type.String({
        description: 'What is to be decided',
        default: 'Approval needed',
        examples: ['Deploy to production?'],
      }),
      role: Type.Union(
        [Type.Literal('viewer'), Type.Literal('executor'), Type.Literal('editor'), Type.Literal('admin')],
        {
          description: 'The least role that may decide',
          default: 'executor',
          examples: ['admin'],
        },
      ),
      timeout: Type.Optional(
        Type.Union([Type.String(), Type.Number()], {
          'x-format': 'duration',
          description: 'For how long it waits, ten years at most; without one for ever',
          examples: ['24h'],
        }),
      ),
      onTimeout: Type.Union([Type.Literal('fail'), Type.Literal('approve'), Type.Literal('reject')], {
        description: 'What it means when nobody has decided in time',
        default: 'fail',
        examples: ['reject'],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    decision: Type.String({ description: 'Always `approved`', examples: ['approved'] }),
    by: Type.Union([Type.String(), Type.Null()], {
      description: 'Who; null when the time was over',
      examples: ['ann'],
    }),
    comment: Type.String({ description: 'What they said', examples: ['Looks good'] }),
  }),
  example: `name: ask-first
tasks:
  - name: may-i
    type: core.approval
    properties:
      message: Go on?
      timeout: 100ms
      onTimeout: approve
`,
  decide: ({ input: { message, role, timeout, onTimeout } }) => ({
    kind: 'pause',
    until: timeout === undefined ? null : Math.ceil(Date.now() + durationMs(timeout, 'properties.timeout')),
    question: { message, role, onTimeout },
  }),
})
