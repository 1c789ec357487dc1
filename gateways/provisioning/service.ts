import type { FastifyRequest } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import type { AlertsState } from '../../schemas/provisioning/alerts.ts'
import type { InstanceState } from '../../schemas/provisioning/instance.ts'
import type { Operation } from '../../schemas/provisioning/operation.ts'
import type { SavedGroup } from '../../schemas/provisioning/parameter-group.ts'

/** What the routes of the provisioning service's door share. */
export interface ProvisioningService {
  readonly bus: Bus
  /** Every instance there is, by projectName; kept up to date by the bus. */
  readonly instances: InstanceList
  readonly groups: ReadonlyMap<string, SavedGroup>
  /** By projectName. */
  readonly alerts: ReadonlyMap<string, AlertsState>
  /**
   * Asks the worker that looks after an instance, or any.
   * @throws {Rejected} and {Unavailable} as it says; `http/unavailable` when nobody answers
   */
  ask<T>(
    question: string,
    about: { readonly projectId?: string; readonly place?: string | null },
    params?: object,
    timeoutMs?: number,
  ): Promise<T>
  /** Opens an envelope with a password. @throws {Rejected} `provisioning/no-secret-keys` */
  open(sealed: Sealed, owner: string): string
  readonly actorOf: (request: FastifyRequest) => string
  /** Instances that one organization may have. */
  readonly maxInstances: number
  /** Epoch ms. */
  readonly now: () => number
}

type Sealed = Parameters<import('../../bus/sealed.ts').KeyRing['open']>[0]

export interface InstanceList {
  all(): readonly (readonly [projectName: string, state: InstanceState])[]
  get(projectName: string): InstanceState
  /** Waits until the view holds what was written at a sequence. */
  passed(projectName: string, sequence: number): Promise<void>
  /** The operation once it has ended; as it is when the time is over before. */
  settled(
    projectName: string,
    operationId: string,
    ms: number,
    gone: AbortSignal,
  ): Promise<Pick<Operation, 'id' | 'type' | 'state' | 'error' | 'result' | 'startedAt'> | null>
  /** Called behind each change. Returns what ends that. */
  onChange(listener: (projectName: string, state: InstanceState) => void): () => void
}
