import type { Instance } from '../../schemas/provisioning/instance.ts'
import type { Health, InstanceFact, OperationType } from '../../schemas/provisioning/instance-facts.ts'
import type { Operation } from '../../schemas/provisioning/operation.ts'
import type { DatabaseType } from '../../schemas/provisioning/tiers.ts'
import type { Metrics } from './local/metrics/metrics.ts'

/** What a step works on: the instance as it is recorded when the step begins. */
export interface StepWork {
  readonly instance: Instance
  readonly operation: Operation
  /** Aborted when the worker stops, or no longer looks after the place: leave everything as it is. */
  readonly signal: AbortSignal
}

export interface StepOutcome {
  /** What later steps have to know; `result` is what the operation answers with. */
  readonly data?: Readonly<Record<string, unknown>>
  /** What is so from now on. */
  readonly facts?: readonly InstanceFact[]
}

/**
 * A part of an operation. It looks at the world and does what is missing: a killed worker's successor runs it again, and it
 * may run although it was done.
 *
 * @throws {Unavailable} or an error of that name for a passing fault: it is run again; anything else: the operation is undone.
 */
export interface Step {
  readonly name: string
  readonly run: (work: StepWork) => Promise<StepOutcome | undefined>
}

export interface Plan {
  readonly steps: readonly Step[]
  /** Run when a step fails: what there was before is there again. */
  readonly undo: readonly Step[]
}

export interface Observed {
  readonly health: Health
  /** For people. */
  readonly reason: string | null
  /** Servers that should run do not: they are to be started at the next look. */
  readonly ended?: boolean
  /** Something the driver wants done, as an operation. */
  readonly wants?: { readonly type: OperationType; readonly request: Readonly<Record<string, unknown>> }
}

/** Which servers there are, by the major versions of the kind. */
export interface EngineStatus {
  readonly databaseType: DatabaseType
  readonly installed: boolean
  /** `18.4`, the newest first. */
  readonly versions: readonly string[]
  /** How to get one. */
  readonly advice: string | null
}

/** Whoever makes and keeps database servers. Everything it needs to know of an instance is in the instance. */
export interface Driver {
  readonly name: 'local' | 'kubernetes'
  /** Names what this driver's servers stand on; an instance never moves to another place. */
  readonly place: string
  engines(): Promise<readonly EngineStatus[]>
  /** @throws {Rejected} `provisioning/engine-missing` when it cannot be had */
  install(databaseType: DatabaseType): Promise<void>
  /** Refuses parameters that no server of the kind would start with, before there is one. @throws {CareFailure} */
  checkNewParameters(wanted: {
    readonly databaseType: string
    readonly version: string | null
    readonly parameters: Readonly<Record<string, string>>
  }): Promise<void>
  /** @throws {Rejected} `provisioning/unsupported` */
  plan(type: OperationType, instance: Instance): Plan
  /** Servers that should run are started, at a start of the worker or of the machine. */
  bringUp(instance: Instance, signal: AbortSignal): Promise<void>
  observe(instance: Instance, signal: AbortSignal): Promise<Observed>
  /** Looks at its servers while an operation is under way: one that hangs is ended, so that the operation goes on. */
  guard(instance: Instance): Promise<void>
  /** Numbers of the moment; one that nobody knows is null, never 0. Not to be asked twice at a time. */
  measure(instance: Instance): Promise<Metrics>
  /** When the newest backup began, epoch ms; null: there is none. */
  lastBackupAt(instance: Instance): Promise<number | null>
  /** A backup that nobody has tried for too long; null: there is none. */
  untestedBackup(instance: Instance, now: number): Promise<string | null>
  /** An instance is gone, or no longer looked after: what was remembered of it can go. */
  forget(uid: string): void
  /** Answers what can be read without an operation. @throws {Rejected} `provisioning/unsupported` */
  ask(question: string, instance: Instance, params: Readonly<Record<string, unknown>>): Promise<unknown>
  close(): Promise<void>
}
