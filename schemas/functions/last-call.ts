import { type Static, Type } from 'typebox'

/** When a function was called last; by its id in the collection `last-call`. */
export const LastCall = Type.Object(
  {
    revision: Type.Integer({ description: 'that was called: the time counts for this one alone' }),
    at: Type.Integer({ description: 'epoch ms' }),
  },
  { additionalProperties: false },
)
export type LastCall = Static<typeof LastCall>

export const lastCallCollection = 'last-call'

/** Name of the counter of a revision's calls. */
export function callsCounter(functionId: string, revision: number): readonly [string, ...string[]] {
  return ['functions', functionId, String(revision)]
}
