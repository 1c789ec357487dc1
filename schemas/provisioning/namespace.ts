import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type FactOf } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'

const Owner = Type.Object({ projectName: Type.String(), uid: Type.String() }, { additionalProperties: false })
const NamespaceClaimed = defineEvent('provisioning.namespace.claimed', Owner)
const NamespaceReleased = defineEvent('provisioning.namespace.released', Owner)

type NamespaceFact = FactOf<typeof NamespaceClaimed | typeof NamespaceReleased>

export interface NamespaceState {
  readonly owner: { readonly projectName: string; readonly uid: string } | null
}

/**
 * Whose a namespace is: `a-b` with `c` and `a` with `b-c` make the same one. Decided together with the instance.
 * Subject `evt.provisioning.namespace.<namespace>`.
 */
export const namespace: Aggregate<NamespaceState, NamespaceFact> = {
  events: defineEvents(NamespaceClaimed, NamespaceReleased),
  initial: { owner: null },
  evolve: (_, { type, data }) => ({ owner: type === 'provisioning.namespace.claimed' ? data : null }),
}

/** @throws {Rejected} `provisioning/exists` when an instance of the same name has it, `provisioning/namespace-taken` */
export function decideClaim(
  { owner }: NamespaceState,
  wanted: { readonly projectName: string; readonly uid: string; readonly namespace: string },
): readonly NamespaceFact[] {
  const { projectName, uid } = wanted
  if (owner === null) return [NamespaceClaimed.of({ projectName, uid })]
  if (owner.uid === uid) return []
  if (owner.projectName === projectName) {
    throw new Rejected('provisioning/exists', `project ID already exists: ${projectName}`, {
      details: { field: 'projectName', reason: 'is taken' },
    })
  }
  throw new Rejected('provisioning/namespace-taken', `The namespace ${wanted.namespace} belongs to another project`, {
    details: { field: 'projectName', reason: `makes the namespace ${wanted.namespace}, which is taken` },
  })
}

export function decideRelease({ owner }: NamespaceState, uid: string): readonly NamespaceFact[] {
  return owner?.uid === uid ? [NamespaceReleased.of(owner)] : []
}
