import type { Static } from 'typebox'
import { Rejected } from '../failure.ts'
import type { InstanceFact, OperationFailure, OperationStarted, OperationType } from './instance-facts.ts'

/** What is being done with an instance, or was. */
export interface Operation {
  readonly id: string
  readonly type: OperationType
  readonly state: 'RUNNING' | 'UNDOING' | 'SUCCEEDED' | 'FAILED'
  readonly request: Readonly<Record<string, unknown>>
  /** Steps that are done, in order. */
  readonly done: readonly string[]
  /** What they told the later ones. */
  readonly data: Readonly<Record<string, unknown>>
  readonly error: OperationFailure | null
  readonly result: Readonly<Record<string, unknown>> | null
  readonly by: string
  readonly startedAt: number
  readonly endedAt: number | null
}

export type EarlierOperation = Pick<Operation, 'id' | 'type' | 'state' | 'error' | 'result' | 'startedAt' | 'endedAt'>

type Started = Static<(typeof OperationStarted)['schema']>

const maxKeptResult = 400

export function startedOperation({ operationId, type, request, by, at }: Started): Operation {
  const nothing = { done: [], data: {}, error: null, result: null, endedAt: null }
  return { id: operationId, type, state: 'RUNNING', request, by, startedAt: at, ...nothing }
}

type OperationFact = Extract<
  InstanceFact,
  { type: `provisioning.instance.operation-${'advanced' | 'undoing' | 'succeeded' | 'failed'}` }
>

export function evolveOperation(operation: Operation, fact: OperationFact): Operation {
  switch (fact.type) {
    case 'provisioning.instance.operation-advanced': {
      const { step, data } = fact.data
      const done = [...operation.done.filter((each) => each !== step), step]
      return { ...operation, done, data: { ...operation.data, ...data } }
    }
    case 'provisioning.instance.operation-undoing':
      return { ...operation, state: 'UNDOING', error: fact.data.error, done: [] }
    case 'provisioning.instance.operation-succeeded': {
      const { result, at } = fact.data
      return { ...operation, state: 'SUCCEEDED', result, error: null, endedAt: at }
    }
    case 'provisioning.instance.operation-failed': {
      const { error, result = null, at } = fact.data
      return { ...operation, state: 'FAILED', error, result, endedAt: at }
    }
  }
}

/** What is remembered of one that others have followed. */
export function operationSummary({ id, type, state, error, result, startedAt, endedAt }: Operation): EarlierOperation {
  // A result can be long; what it says lies where the operation put it.
  const kept = result !== null && JSON.stringify(result).length > maxKeptResult ? null : result
  return { id, type, state, error, result: kept, startedAt, endedAt }
}

export function isUnderWay({ state }: Pick<Operation, 'state'>): boolean {
  return state === 'RUNNING' || state === 'UNDOING'
}

/** The id of an operation that was asked for with an `Idempotency-Key`: of the key, and of what was asked for. */
export function keyedOperationId(key: string, request: string): string {
  return `${key}~${request}`
}

/** Whether two ids come of one key with two requests. */
export function isOtherRequest(id: string, known: string): boolean {
  const [key, request] = id.split('~')
  const [knownKey, knownRequest] = known.split('~')
  return request !== undefined && key === knownKey && request !== knownRequest
}

export function otherRequest(): Rejected {
  const reason = 'was used before with another body'
  return new Rejected('provisioning/idempotency-mismatch', `The Idempotency-Key ${reason}`, {
    details: { field: 'Idempotency-Key', reason },
    hint: 'Send a new key with a new request.',
  })
}
