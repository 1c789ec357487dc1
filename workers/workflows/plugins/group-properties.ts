import { Type } from 'typebox'

/** How many tasks of a group, or items of a loop, run at a time. */
export const Concurrency = Type.Integer({
  description: 'How many run at a time',
  minimum: 1,
  maximum: 1000,
  default: 16,
  examples: [4],
})

/** What becomes of the others when one fails. */
export const OnFailure = Type.Union([Type.Literal('cancel'), Type.Literal('wait'), Type.Literal('continue')], {
  description:
    'When one fails: `cancel` the others, `wait` for those that run and start no more, or `continue` with all; it has failed in each case',
  default: 'cancel',
  examples: ['continue'],
})
