import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type FactOf } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import { maxTriggers, Trigger } from './trigger.ts'

const closed = { additionalProperties: false } as const
export const functionIdPattern = '^(?![.]{1,2}$)[A-Za-z0-9_.-]{1,128}$'
export const FunctionId = Type.String({ pattern: functionIdPattern })
const Timestamp = Type.Integer({ description: 'epoch ms' })
const Revision = Type.Integer({
  minimum: 1,
  description: '1 on first deploy, +1 on each replacement, also behind a deletion',
})
/** A fact cannot name the sequence of its own message; the next one does. */
const Before = Type.Integer({ minimum: 0, description: 'stream sequence of the message before on this subject' })

/** An encrypted value: only who holds the key of this id can read it. */
const SealedValue = Type.Object(
  {
    keyId: Type.String(),
    nonce: Type.String({ description: '96 bits, base64' }),
    ciphertext: Type.String({ description: 'AES-256-GCM with its tag, base64' }),
    context: Type.String({ description: 'the additional data: whose value this is' }),
  },
  closed,
)

/** The function answers invocations from now on; isolates of older revisions are disposed. */
const FunctionDeployed = defineEvent(
  'functions.function.deployed',
  Type.Object(
    {
      functionId: FunctionId,
      revision: Revision,
      source: Type.String({ description: 'JavaScript or TypeScript as it was sent, UTF-8' }),
      code: Type.String({ description: 'compiled: a script without ESM syntax' }),
      sourceMap: Type.String({ description: 'JSON, of the compiled code' }),
      hasHandler: Type.Boolean({ description: 'whether the source names a handler' }),
      idempotent: Type.Boolean({ description: 'whether a call may run again when its worker is lost' }),
      deployedAt: Timestamp,
      before: Before,
    },
    closed,
  ),
)

/** An older revision's program is the function again, as a revision of its own. */
const FunctionRolledBack = defineEvent(
  'functions.function.rolled-back',
  Type.Object(
    { functionId: FunctionId, revision: Revision, to: Revision, rolledBackAt: Timestamp, before: Before },
    closed,
  ),
)

/** All variables and secrets that the function sees from now on. */
const FunctionEnvSet = defineEvent(
  'functions.function.env-set',
  Type.Object(
    {
      functionId: FunctionId,
      version: Type.Integer({ minimum: 1 }),
      variables: Type.Record(Type.String(), Type.String()),
      secrets: Type.Record(Type.String(), SealedValue),
      setAt: Timestamp,
      before: Before,
    },
    closed,
  ),
)

/** All triggers of the function from now on. */
const FunctionTriggersSet = defineEvent(
  'functions.function.triggers-set',
  Type.Object(
    {
      functionId: FunctionId,
      version: Type.Integer({ minimum: 1 }),
      triggers: Type.Array(Trigger, { maxItems: maxTriggers }),
      setAt: Timestamp,
      before: Before,
    },
    closed,
  ),
)

/** No function has this id any more; its variables, secrets and triggers are gone with it. */
const FunctionDeleted = defineEvent(
  'functions.function.deleted',
  Type.Object({ functionId: FunctionId, deletedAt: Timestamp, before: Before }, closed),
)

export type FunctionFact = FactOf<
  | typeof FunctionDeployed
  | typeof FunctionRolledBack
  | typeof FunctionEnvSet
  | typeof FunctionTriggersSet
  | typeof FunctionDeleted
>
export type DeployedFact = FactOf<typeof FunctionDeployed>
export type EnvSetFact = FactOf<typeof FunctionEnvSet>

export interface RevisionEntry {
  readonly revision: number
  /** Whose program it runs: its own, or that of the revision it went back to. */
  readonly program: number
  /** Stream sequence of the message with the program; 0: the message that carries this state. */
  readonly sequence: number
  readonly at: number
  readonly idempotent: boolean
}

/** Counters that go on behind a deletion, so that no revision or version means two things. */
interface Numbers {
  readonly revision: number
  readonly envVersion: number
  readonly triggersVersion: number
}

export interface DeployedState extends Numbers {
  readonly stage: 'deployed'
  /** Oldest first; the last is the one that answers. */
  readonly revisions: readonly [RevisionEntry, ...RevisionEntry[]]
  /** Stream sequence of the message with the variables; 0: the message that carries this state; null: none were set. */
  readonly envSequence: number | null
  readonly triggers: readonly Trigger[]
  /** Changes before do not count. */
  readonly triggersSetAt: number
}

export type FunctionState = ({ readonly stage: 'absent' } & Numbers) | DeployedState

/** Older ones cannot be gone back to. */
const maxRevisions = 50

/** One function; `evt.functions.function.<id>`. */
export const functionAggregate: Aggregate<FunctionState, FunctionFact> = {
  events: defineEvents(FunctionDeployed, FunctionRolledBack, FunctionEnvSet, FunctionTriggersSet, FunctionDeleted),
  initial: { stage: 'absent', revision: 0, envVersion: 0, triggersVersion: 0 },
  evolve(before, { type, data }) {
    const state = placed(before, data.before)
    switch (type) {
      case 'functions.function.deployed': {
        const { revision, deployedAt: at, idempotent } = data
        return withRevision(state, { revision, program: revision, sequence: 0, at, idempotent })
      }
      case 'functions.function.rolled-back': {
        const origin = deployedOnly(state).revisions.find(({ revision }) => revision === data.to)
        if (origin === undefined) return state
        return withRevision(state, { ...origin, revision: data.revision, at: data.rolledBackAt })
      }
      case 'functions.function.env-set':
        return { ...deployedOnly(state), envVersion: data.version, envSequence: 0 }
      case 'functions.function.triggers-set': {
        const { triggers, version: triggersVersion, setAt: triggersSetAt } = data
        return { ...deployedOnly(state), triggers, triggersVersion, triggersSetAt }
      }
      case 'functions.function.deleted': {
        const { revision, envVersion, triggersVersion } = state
        return { stage: 'absent', revision, envVersion, triggersVersion }
      }
    }
  },
}

/** The state of a message that has this sequence, with the sequence in the places that mean the message itself. */
export function placed(state: FunctionState, sequence: number): FunctionState {
  if (state.stage === 'absent') return state
  const place = (entry: RevisionEntry): RevisionEntry => (entry.sequence === 0 ? { ...entry, sequence } : entry)
  const [first, ...rest] = state.revisions
  const envSequence = state.envSequence === 0 ? sequence : state.envSequence
  return { ...state, revisions: [place(first), ...rest.map(place)], envSequence }
}

/** The revision that answers. */
export function activeRevision({ revisions }: DeployedState): RevisionEntry {
  return revisions.at(-1) ?? revisions[0]
}

function withRevision(state: FunctionState, entry: RevisionEntry): DeployedState {
  const { revision } = entry
  if (state.stage === 'deployed') {
    const [first = entry, ...rest] = [...state.revisions, entry].slice(-maxRevisions)
    return { ...state, revision, revisions: [first, ...rest] }
  }
  const { envVersion, triggersVersion } = state
  const fresh = { envSequence: null, triggers: [], triggersSetAt: 0 }
  return { stage: 'deployed', revision, envVersion, triggersVersion, revisions: [entry], ...fresh }
}

function deployedOnly(state: FunctionState): DeployedState {
  if (state.stage === 'deployed') return state
  throw new TypeError('A function that is not deployed has no revisions, variables and triggers')
}

/** When a decision is taken, and on what. */
export interface Moment {
  /** Epoch ms. */
  readonly now: number
  /** Stream sequence of the last message on the subject, the state's; 0 for none. */
  readonly sequence: number
}

export interface Deploy
  extends Pick<DeployedFact['data'], 'source' | 'code' | 'sourceMap' | 'hasHandler' | 'idempotent'> {
  readonly functionId: string
}

/** The first revision, or the next one; whether there is room for one more function is for `decideTake` to say. */
export function decideDeploy(state: FunctionState, command: Deploy, { now, sequence }: Moment): FunctionFact[] {
  return [FunctionDeployed.of({ ...command, revision: state.revision + 1, deployedAt: now, before: sequence })]
}

/** @throws {Rejected} `functions/not-found` */
export function decideDelete(state: FunctionState, functionId: string, { now, sequence }: Moment): FunctionFact[] {
  requireDeployed(state, functionId)
  return [FunctionDeleted.of({ functionId, deletedAt: now, before: sequence })]
}

/**
 * `to` null goes back to the revision before the one that answers. To the one that answers: nothing to do.
 *
 * @throws {Rejected} `functions/not-found`; `functions/unknown-revision`
 */
export function decideRollback(
  state: FunctionState,
  { functionId, to }: { readonly functionId: string; readonly to: number | null },
  { now, sequence }: Moment,
): FunctionFact[] {
  const { revisions, revision } = requireDeployed(state, functionId)
  const origin = to === null ? revisions.at(-2) : revisions.find((entry) => entry.revision === to)
  if (origin === undefined) {
    const text = to === null ? 'no earlier revision' : `no revision ${to}`
    throw new Rejected('functions/unknown-revision', `Script ${functionId} has ${text}`)
  }
  if (origin.revision === revision) return []
  const data = { functionId, revision: revision + 1, to: origin.revision, rolledBackAt: now, before: sequence }
  return [FunctionRolledBack.of(data)]
}

export interface SetEnv extends Pick<EnvSetFact['data'], 'variables' | 'secrets'> {
  readonly functionId: string
}

/** @throws {Rejected} `functions/not-found` */
export function decideSetEnv(state: FunctionState, command: SetEnv, { now, sequence }: Moment): FunctionFact[] {
  const { envVersion } = requireDeployed(state, command.functionId)
  return [FunctionEnvSet.of({ ...command, version: envVersion + 1, setAt: now, before: sequence })]
}

/** @throws {Rejected} `functions/not-found` */
export function decideSetTriggers(
  state: FunctionState,
  { functionId, triggers }: { readonly functionId: string; readonly triggers: readonly Trigger[] },
  { now, sequence }: Moment,
): FunctionFact[] {
  const { triggersVersion } = requireDeployed(state, functionId)
  const data = { functionId, triggers: [...triggers], version: triggersVersion + 1, setAt: now, before: sequence }
  return [FunctionTriggersSet.of(data)]
}

/** @throws {Rejected} `functions/not-found` */
export function requireDeployed(state: FunctionState | undefined, functionId: string): DeployedState {
  if (state?.stage === 'deployed') return state
  throw notFound(functionId)
}

export function notFound(functionId: string): Rejected {
  return new Rejected('functions/not-found', `Script not found: ${functionId}`)
}
