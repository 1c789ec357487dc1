import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type FactOf } from '../../bus/message.ts'

const CredentialsRead = defineEvent(
  'provisioning.access.credentials-read',
  Type.Object(
    {
      uid: Type.String({ description: 'of the instance' }),
      version: Type.Integer({ description: 'of the password' }),
      by: Type.String(),
      at: Type.Integer({ description: 'epoch ms' }),
    },
    { additionalProperties: false },
  ),
)

type Read = FactOf<typeof CredentialsRead>['data']

export interface AccessState {
  readonly last: Read | null
}

/** Who was shown an instance's password. Subject `evt.provisioning.access.<projectName>`. */
export const access: Aggregate<AccessState, FactOf<typeof CredentialsRead>> = {
  events: defineEvents(CredentialsRead),
  initial: { last: null },
  evolve: (_, { data }) => ({ last: data }),
}

/** One who reads it again and again is written down once in this time. */
const againMs = 60_000

export function decideRead({ last }: AccessState, read: Read): readonly FactOf<typeof CredentialsRead>[] {
  const same = last !== null && last.uid === read.uid && last.version === read.version && last.by === read.by
  return same && read.at - last.at < againMs ? [] : [CredentialsRead.of(read)]
}
