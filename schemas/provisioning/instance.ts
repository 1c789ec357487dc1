import type { Static } from 'typebox'
import type { Aggregate } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import {
  type BackupSettings,
  type Credentials,
  facts,
  type Health,
  type InstanceFact,
  InstanceRequested,
  instanceEvents,
  type MaintenanceSettings,
  type Member,
  OperationStarted,
  type OperationType,
  type Requested,
  SettingsChanged,
} from './instance-facts.ts'
import {
  type EarlierOperation,
  evolveOperation,
  isOtherRequest,
  isUnderWay,
  type Operation,
  operationSummary,
  otherRequest,
  startedOperation,
} from './operation.ts'
import type { TierName } from './tiers.ts'

/** An instance that somebody wants, whether its servers run or not. */
export interface Instance extends Omit<Requested, 'by' | 'at' | 'version' | 'tier'> {
  readonly stage: 'wanted'
  readonly tier: TierName
  readonly version: string | null
  readonly deletionProtection: boolean
  readonly maintenance: MaintenanceSettings | null
  readonly backup: BackupSettings
  readonly queryStats: boolean
  /** How statements are written down; null: they are not. */
  readonly audit: string | null
  /** Parameters that count from the next restart on. */
  readonly pendingRestart: readonly string[]
  /** Whether it has ever been ready. */
  readonly created: boolean
  readonly place: string | null
  readonly members: readonly Member[]
  /** Name of a member. */
  readonly primary: string | null
  readonly credentials: Credentials | null
  readonly health: Health
  readonly healthReason: string | null
  /** The one under way, or the last. */
  readonly operation: Operation
  /** Those before, the newest first. */
  readonly earlier: readonly EarlierOperation[]
  readonly createdAt: number
  readonly updatedAt: number
  /** Counts what was asked for. */
  readonly generation: number
}

export type InstanceState =
  | { readonly stage: 'absent' }
  | { readonly stage: 'deleted'; readonly last: Operation }
  | Instance

const maxEarlier = 20

/** A database somebody was given. Subject `evt.provisioning.instance.<projectName>`, stream `EVT_PROVISIONING`. */
export const instance: Aggregate<InstanceState, InstanceFact> = {
  events: instanceEvents,
  initial: { stage: 'absent' },
  evolve(state, fact) {
    if (fact.type === 'provisioning.instance.requested') return requested(fact.data)
    return state.stage === 'wanted' ? evolveWanted(state, fact) : state
  },
}

function requested({ by, at, ...wanted }: Requested): Instance {
  return {
    ...wanted,
    stage: 'wanted',
    deletionProtection: false,
    maintenance: null,
    queryStats: false,
    audit: null,
    pendingRestart: [],
    created: false,
    place: null,
    members: [],
    primary: null,
    credentials: null,
    health: 'UNKNOWN',
    healthReason: null,
    operation: startedOperation({ operationId: '', type: 'CREATE', request: {}, by, at }),
    earlier: [],
    createdAt: at,
    updatedAt: at,
    generation: 1,
  }
}

function evolveWanted(
  state: Instance,
  fact: Exclude<InstanceFact, { type: 'provisioning.instance.requested' }>,
): InstanceState {
  const { operation } = state
  switch (fact.type) {
    case 'provisioning.instance.operation-started': {
      const earlier = operation.id === '' ? [] : [operationSummary(operation), ...state.earlier].slice(0, maxEarlier)
      const generation = operation.id === '' ? state.generation : state.generation + 1
      return { ...state, operation: startedOperation(fact.data), earlier, generation, updatedAt: fact.data.at }
    }
    case 'provisioning.instance.operation-advanced':
    case 'provisioning.instance.operation-undoing':
      return { ...state, operation: evolveOperation(operation, fact) }
    case 'provisioning.instance.operation-succeeded':
      return { ...state, created: true, operation: evolveOperation(operation, fact), updatedAt: fact.data.at }
    case 'provisioning.instance.operation-failed':
      return { ...state, operation: evolveOperation(operation, fact), updatedAt: fact.data.at }
    case 'provisioning.instance.placed':
      return { ...state, place: fact.data.place }
    case 'provisioning.instance.members-changed':
      return { ...state, members: fact.data.members, primary: fact.data.primary }
    case 'provisioning.instance.credentials-changed':
      return { ...state, credentials: fact.data }
    case 'provisioning.instance.settings-changed': {
      const { by: _, at, ...settings } = fact.data
      return { ...state, ...settings, updatedAt: at }
    }
    case 'provisioning.instance.health-changed':
      return { ...state, health: fact.data.health, healthReason: fact.data.reason, updatedAt: fact.data.at }
    case 'provisioning.instance.deleted':
      return { stage: 'deleted', last: { ...operation, state: 'SUCCEEDED', endedAt: fact.data.at } }
  }
}

/** @throws {Rejected} `provisioning/not-found` */
export function requireInstance(state: InstanceState, projectName: string): Instance {
  if (state.stage === 'wanted') return state
  throw new Rejected('provisioning/not-found', `There is no instance ${projectName}`)
}

/** An operation that an instance remembers; null when it does not. */
export function findOperation(state: InstanceState, id: string) {
  if (state.stage === 'deleted') return state.last.id === id ? state.last : null
  if (state.stage !== 'wanted') return null
  return state.operation.id === id ? state.operation : (state.earlier.find((each) => each.id === id) ?? null)
}

/** @throws {Rejected} `provisioning/idempotency-mismatch` when the key of an operation was used for another request */
function requireSameRequest({ operation, earlier }: Pick<Instance, 'operation' | 'earlier'>, id: string): void {
  if ([operation, ...earlier].some((known) => isOtherRequest(id, known.id))) throw otherRequest()
}

/**
 * Nothing when this very request has been granted before.
 * @throws {Rejected} `provisioning/exists`, `provisioning/idempotency-mismatch`
 */
export function decideProvision(
  state: InstanceState,
  wanted: Requested,
  { operationId, type }: { readonly operationId: string; readonly type: 'CREATE' | 'CLONE' | 'RESTORE' },
): readonly InstanceFact[] {
  if (state.stage === 'wanted') {
    if (findOperation(state, operationId) !== null) return []
    requireSameRequest(state, operationId)
    throw new Rejected('provisioning/exists', `project ID already exists: ${wanted.projectName}`, {
      details: { field: 'projectName', reason: 'is taken' },
    })
  }
  const { by, at } = wanted
  return [InstanceRequested.of(wanted), OperationStarted.of({ operationId, type, request: {}, by, at })]
}

export interface OperationWanted {
  readonly id: string
  readonly type: OperationType
  readonly request: Readonly<Record<string, unknown>>
  readonly by: string
  readonly at: number
}

/** What may be done with an instance that has never been ready. */
const forUnready: ReadonlySet<OperationType> = new Set<OperationType>(['DELETE'])

/**
 * Nothing when it was begun before under this id.
 * @throws {Rejected} `provisioning/not-found`, `provisioning/deletion-protected`, `provisioning/operation-in-progress`,
 * `provisioning/invalid-state`, `provisioning/idempotency-mismatch`
 */
export function decideOperation(
  state: InstanceState,
  projectName: string,
  { id, type, request, by, at }: OperationWanted,
): readonly InstanceFact[] {
  if (findOperation(state, id) !== null) return []
  const found = requireInstance(state, projectName)
  requireSameRequest(found, id)
  if (type === 'DELETE' && found.deletionProtection) {
    throw new Rejected('provisioning/deletion-protected', `deletion protection is enabled for ${projectName}`, {
      hint: `PATCH /api/provision/${projectName}/deletion-protection with {"enabled": false} first.`,
    })
  }
  requireIdle(found)
  if (!found.created && !forUnready.has(type)) {
    throw new Rejected('provisioning/invalid-state', `${projectName} was never ready: delete it and provision it again`)
  }
  return [OperationStarted.of({ operationId: id, type, request, by, at })]
}

/** @throws {Rejected} `provisioning/operation-in-progress` */
function requireIdle({ operation, projectName }: Instance): void {
  if (!isUnderWay(operation)) return
  const { id, type, startedAt } = operation
  throw new Rejected('provisioning/operation-in-progress', `${projectName} is busy: ${type} is under way`, {
    details: { operation: { id, type, startedAt: new Date(startedAt).toISOString() } },
    hint: 'Wait for its end (GET the instance, field operation), then send the request again.',
  })
}

type Settings = Omit<Static<(typeof SettingsChanged)['schema']>, 'by' | 'at'>

/**
 * What needs no work: protection, the maintenance window, the backup schedule.
 * @throws {Rejected} `provisioning/not-found`; `provisioning/operation-in-progress` when it is being deleted
 */
export function decideSettings(
  state: InstanceState,
  projectName: string,
  settings: Settings,
  { by, at }: { readonly by: string; readonly at: number },
): readonly InstanceFact[] {
  const found = requireInstance(state, projectName)
  // Whoever protects an instance must not be told so while it goes.
  if (found.operation.type === 'DELETE') requireIdle(found)
  const changes = Object.entries(settings).some(
    ([name, value]) => JSON.stringify(found[name as keyof Instance]) !== JSON.stringify(value),
  )
  return changes ? [SettingsChanged.of({ ...settings, by, at })] : []
}

/** Nothing when the operation is no longer the one under way. */
export function decideOnOperation(
  state: InstanceState,
  operationId: string,
  own: (found: Instance) => readonly InstanceFact[],
): readonly InstanceFact[] {
  if (state.stage !== 'wanted' || state.operation.id !== operationId || !isUnderWay(state.operation)) return []
  return own(state)
}

/** Nothing when it is known. */
export function decideHealth(
  state: InstanceState,
  uid: string,
  { health, reason }: { readonly health: Health; readonly reason: string | null },
  at: number,
): readonly InstanceFact[] {
  if (state.stage !== 'wanted' || state.uid !== uid) return []
  if (state.health === health && state.healthReason === reason) return []
  return [facts.health.of({ health, reason, at })]
}
