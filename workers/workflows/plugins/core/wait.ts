import { Type } from 'typebox'
import { maxWaitMs } from '../../../../schemas/workflows/duration.ts'
import { defineControl, TaskFailure } from '../../plugin.ts'
import { durationMs } from '../duration.ts'

export const wait = defineControl({
  id: 'core.wait',
  name: 'Wait',
  category: 'Core',
  description: 'Waits for a duration or until a time. No worker is held meanwhile, and restarts do not matter.',
  blocks: [],
  input: Type.Object(
    {
      duration: Type.Optional(
        Type.Union([Type.String(), Type.Number()], {
          'x-format': 'duration',
          description: '`30s`, `5m`, `2h`, `1d`, `PT1H30M`, or a number of milliseconds; ten years at most',
          examples: ['30s'],
        }),
      ),
      until: Type.Optional(
        Type.String({
          description: 'A time, RFC 3339; one that has passed is no wait',
          examples: ['2027-01-01T00:00:00Z'],
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    until: Type.String({ description: 'When it was over', examples: ['2027-01-01T00:00:00.000Z'] }),
  }),
  example: `name: a-moment
tasks:
  - name: pause
    type: core.wait
    properties: { duration: 100ms }
`,
  decide: ({ input: { duration, until } }) => {
    if ((duration === undefined) === (until === undefined)) {
      throw new TaskFailure('refused', 'properties needs one of duration and until')
    }
    if (duration !== undefined) {
      return {
        kind: 'pause',
        until: Math.ceil(Date.now() + durationMs(duration, 'properties.duration')),
        question: null,
      }
    }
    const at = Date.parse(until!)
    if (Number.isNaN(at)) throw new TaskFailure('refused', 'properties.until is no time')
    if (at - Date.now() > maxWaitMs) throw new TaskFailure('refused', 'properties.until is more than ten years away')
    return { kind: 'pause', until: at, question: null }
  },
})
