import {
  jsonParse,
  mapDelete,
  mapGet,
  mapSet,
  mapSize,
  NativeError,
  NativeMap,
  NativePromise,
  NativeRangeError,
  NativeTypeError,
  slice,
} from './intrinsics.ts'
import {
  type AsyncOperation,
  GUEST_LIMITS,
  type GuestLimits,
  type HostBegin,
  type HostOp,
  type SyncOperation,
} from './operations.ts'

let op: HostOp
let hostBegin: HostBegin
/** What is begun waits in the host's queue; after so many the host is waited for, so that a flood does not hold up the others there. */
const WAIT_AFTER = 64
let begun = 0

const begin: HostBegin = (id, name, argument, invocationId) => {
  hostBegin(id, name, argument, invocationId)
  if (++begun % WAIT_AFTER === 0) op('now', '')
}
export let limits: GuestLimits = GUEST_LIMITS

/** The call whose code runs now: set on every entry of the host, kept by what it begins. '' before the first call. */
let invocation = ''
export const currentInvocation = (): string => invocation
export function enter(invocationId: string): void {
  invocation = invocationId
}

export function connect(given: { readonly op: HostOp; readonly begin: HostBegin }, limited: GuestLimits): void {
  op = given.op
  hostBegin = given.begin
  limits = limited
}

type Maker = (message: string) => Error
const makers: { [name: string]: Maker | undefined } = {
  __proto__: null as never,
  TypeError: (message) => new NativeTypeError(message),
  RangeError: (message) => new NativeRangeError(message),
}
/** Tells how errors of other names are made (DOMException, once it is there). */
let otherError: (name: string, message: string) => Error = (_, message) => new NativeError(message)
export function makeErrorsWith(make: (name: string, message: string) => Error): void {
  otherError = make
}

function failed(result: string): Error {
  const { name, message } = jsonParse(slice(result, 1)) as { name: string; message: string }
  const known = makers[name]
  return known === undefined ? otherError(name, message) : known(message)
}

/** A synchronous host operation. @throws what the host says went wrong, as an error of this realm. */
export function ask(name: SyncOperation, argument: string): string {
  const result = op(name, argument)
  if (result[0] === '!') throw failed(result)
  return slice(result, 1)
}

interface Pending {
  readonly resolve: (packet: string) => void
  readonly reject: (error: Error) => void
  readonly invocationId: string
}
const pending = new NativeMap<number, Pending>()
let lastOperation = 0

/** An asynchronous host operation; resolves with its packet. */
export function request(name: AsyncOperation, argument: string): Promise<string> {
  if (mapSize(pending as never) >= limits.maxOperations)
    throw new NativeRangeError(`More than ${limits.maxOperations} operations are under way`)
  const id = ++lastOperation
  const invocationId = invocation
  return new NativePromise<string>((resolve, reject) => {
    mapSet(pending, id, { resolve, reject, invocationId })
    begin(id, name, argument, invocation)
  })
}

/** Of the operation that was begun last. */
export const lastOperationId = (): number => lastOperation

/** A note to the host that has no answer. */
export function tell(id: number, name: 'timer' | 'reply-ready' | 'abandon' | 'waits-done', argument = ''): void {
  begin(id, name, argument, invocation)
}

export function settle(operationId: number, result: string): void {
  const operation = mapGet(pending, operationId)
  if (operation === undefined) return
  mapDelete(pending, operationId)
  invocation = operation.invocationId
  if (result[0] === '!') operation.reject(failed(result))
  else operation.resolve(slice(result, 1))
}
