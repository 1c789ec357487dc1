import { type Static, Type } from 'typebox'
import { defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { databaseTypes, tierNames } from './tiers.ts'

const closed = { additionalProperties: false } as const
const Time = Type.Integer({ description: 'epoch ms' })
const Text = Type.String()
const nullable = <S extends ReturnType<typeof Type.Unsafe>>(schema: S) => Type.Union([schema, Type.Null()])
const literals = <const T extends readonly string[]>(values: T) =>
  Type.Unsafe<T[number]>({ type: 'string', enum: [...values] })
const Texts = Type.Record(Type.String(), Type.String())
const Data = Type.Record(Type.String(), Type.Unknown())

/** What may be under way on an instance; one at a time. */
export const operationTypes = [
  'CREATE',
  'CLONE',
  'RESTORE',
  'DELETE',
  'SCALE',
  'RESIZE',
  'UPGRADE',
  'PARAMETERS',
  'ROTATE',
  'BACKUP',
  'VERIFY_BACKUP',
  'SNAPSHOT',
  'MIGRATION',
  'ENABLE_QUERY_STATS',
  'ENABLE_AUDIT',
  'FAILOVER',
  'REPAIR',
  'RESTART',
] as const
export type OperationType = (typeof operationTypes)[number]

/** An AES-256-GCM envelope (bus/sealed.ts). */
const Envelope = Type.Object({ keyId: Text, nonce: Text, ciphertext: Text, context: Text }, closed)

export const Backup = Type.Object(
  {
    enabled: Type.Boolean(),
    schedule: Type.String({ description: 'cron, five fields, UTC' }),
    retention: Type.Integer({ minimum: 1, description: 'days' }),
  },
  closed,
)
export type BackupSettings = Static<typeof Backup>

export const MaintenanceWindow = Type.Object(
  { window: Text, durationMinutes: Type.Integer({ minimum: 1 }), autoMinorVersionUpgrade: Type.Boolean() },
  closed,
)
export type MaintenanceSettings = Static<typeof MaintenanceWindow>

const Followed = Type.Object(
  { version: Type.Integer({ minimum: 1 }), parameters: Texts },
  { ...closed, description: 'what of its parameter group an instance has taken over' },
)

const Source = Type.Object(
  {
    type: literals(['CLONE', 'RESTORE']),
    projectId: Text,
    uid: Text,
    targetTime: nullable(Type.Unsafe<string>({ type: 'string' })),
    backupId: nullable(Type.Unsafe<string>({ type: 'string' })),
  },
  closed,
)

/** One server of an instance. */
const Member = Type.Object(
  {
    name: Type.String({ description: 'm1, m2 …; never used twice in an instance' }),
    port: Type.Integer(),
    /** Of the server program, `18.4`. */
    version: Text,
  },
  closed,
)
export type Member = Static<typeof Member>

const Failure = Type.Object(
  {
    code: Text,
    message: Text,
    field: Type.Optional(Type.String({ description: 'of the request, when it is to blame' })),
  },
  closed,
)
export type OperationFailure = Static<typeof Failure>

/** Somebody wants this instance. Comes with `operation-started`. */
export const InstanceRequested = defineEvent(
  'provisioning.instance.requested',
  Type.Object(
    {
      uid: Type.String({ description: 'of this very instance: a later one of the same name has another' }),
      projectName: Text,
      orgId: Text,
      namespace: Text,
      databaseType: literals(databaseTypes),
      tier: literals(tierNames),
      version: Type.Union([Text, Type.Null()], { description: 'as asked for; null: the newest there is' }),
      databaseName: Text,
      masterUsername: Text,
      parameters: Texts,
      parameterGroup: Type.Union([Text, Type.Null()]),
      followed: Type.Optional(Followed),
      tags: Texts,
      backup: Backup,
      storageBytes: Type.Integer(),
      source: Type.Union([Source, Type.Null()]),
      by: Text,
      at: Time,
    },
    closed,
  ),
)
export type Requested = Static<(typeof InstanceRequested)['schema']>

export const OperationStarted = defineEvent(
  'provisioning.instance.operation-started',
  Type.Object({ operationId: Text, type: literals(operationTypes), request: Data, by: Text, at: Time }, closed),
)
/** A step is done; `data` is what later steps have to know. */
const OperationAdvanced = defineEvent(
  'provisioning.instance.operation-advanced',
  Type.Object({ operationId: Text, step: Text, data: Data, at: Time }, closed),
)
/** It cannot be finished: what it did is being taken back. */
const OperationUndoing = defineEvent(
  'provisioning.instance.operation-undoing',
  Type.Object({ operationId: Text, error: Failure, at: Time }, closed),
)
const OperationSucceeded = defineEvent(
  'provisioning.instance.operation-succeeded',
  Type.Object({ operationId: Text, result: Data, at: Time }, closed),
)
const OperationFailed = defineEvent(
  'provisioning.instance.operation-failed',
  Type.Object({ operationId: Text, error: Failure, result: Type.Optional(Data), at: Time }, closed),
)
/** The place that looks after it: a data folder of a worker. */
const InstancePlaced = defineEvent('provisioning.instance.placed', Type.Object({ place: Text, at: Time }, closed))
/** Its servers are these from now on. */
const MembersChanged = defineEvent(
  'provisioning.instance.members-changed',
  Type.Object({ members: Type.Array(Member), primary: Type.Union([Text, Type.Null()]), at: Time }, closed),
)
/** Passwords, sealed. `pending`: about to take the place of `master`. */
const CredentialsChanged = defineEvent(
  'provisioning.instance.credentials-changed',
  Type.Object(
    {
      superuser: Envelope,
      master: Envelope,
      pending: Type.Union([Envelope, Type.Null()]),
      version: Type.Integer({ minimum: 1 }),
      at: Time,
    },
    closed,
  ),
)
export type Credentials = Static<(typeof CredentialsChanged)['schema']>
/** What is given takes the place of what was. */
export const SettingsChanged = defineEvent(
  'provisioning.instance.settings-changed',
  Type.Object(
    {
      tier: Type.Optional(literals(tierNames)),
      version: Type.Optional(Text),
      storageBytes: Type.Optional(Type.Integer()),
      parameters: Type.Optional(Texts),
      parameterGroup: Type.Optional(Type.Union([Text, Type.Null()])),
      followed: Type.Optional(Followed),
      pendingRestart: Type.Optional(Type.Array(Text)),
      deletionProtection: Type.Optional(Type.Boolean()),
      maintenance: Type.Optional(MaintenanceWindow),
      backup: Type.Optional(Backup),
      queryStats: Type.Optional(Type.Boolean()),
      audit: Type.Optional(Type.Union([Text, Type.Null()])),
      by: Text,
      at: Time,
    },
    closed,
  ),
)
export const healths = ['UNKNOWN', 'HEALTHY', 'DEGRADED', 'DOWN', 'STORAGE_FULL'] as const
export type Health = (typeof healths)[number]
const HealthChanged = defineEvent(
  'provisioning.instance.health-changed',
  Type.Object({ health: literals(healths), reason: Type.Union([Text, Type.Null()]), at: Time }, closed),
)
/** Nothing of it is left. Comes with the end of the operation. */
const InstanceDeleted = defineEvent('provisioning.instance.deleted', Type.Object({ at: Time }, closed))

export const instanceEvents = defineEvents(
  InstanceRequested,
  OperationStarted,
  OperationAdvanced,
  OperationUndoing,
  OperationSucceeded,
  OperationFailed,
  InstancePlaced,
  MembersChanged,
  CredentialsChanged,
  SettingsChanged,
  HealthChanged,
  InstanceDeleted,
)
export type InstanceFact = typeof instanceEvents extends EventSet<infer F> ? F : never

/** Facts that a step of an operation brings, without time. */
export const facts = {
  placed: InstancePlaced,
  members: MembersChanged,
  credentials: CredentialsChanged,
  settings: SettingsChanged,
  health: HealthChanged,
  deleted: InstanceDeleted,
  advanced: OperationAdvanced,
  undoing: OperationUndoing,
  succeeded: OperationSucceeded,
  failed: OperationFailed,
} as const
