import { TaskFailure } from '../../plugin.ts'

interface KafkaError extends Error {
  readonly code?: string
  readonly apiId?: string
  readonly canRetry?: boolean
  readonly errors?: readonly unknown[]
}

/** What tells more of an error comes first. */
const kinds: readonly ((error: KafkaError) => TaskFailure | null)[] = [
  (error) => (error instanceof TaskFailure ? error : null),
  ({ code, message }) => {
    const isAuthentication = code === 'PLT_KFK_AUTHENTICATION'
    return isAuthentication ? new TaskFailure('refused', `The broker refused the account: ${message}`) : null
  },
  ({ apiId, canRetry }) => {
    if (apiId === undefined) return null
    // It can come to be, but nobody makes it by waiting.
    const passes = canRetry === true && apiId !== 'UNKNOWN_TOPIC_OR_PARTITION'
    return new TaskFailure(passes ? 'unavailable' : 'refused', `The broker refused it: ${apiId}`)
  },
  ({ code = '', message }) =>
    /CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO/.test(code) || /TLS/.test(message)
      ? new TaskFailure('refused', `TLS is not possible: ${message}`)
      : null,
  ({ code }) =>
    code === 'ERR_BUFFER_TOO_LARGE'
      ? new TaskFailure('refused', 'A batch of messages is larger than 64 MB once it is unpacked')
      : null,
  ({ code }) => (code === 'PLT_KFK_TIMEOUT' ? new TaskFailure('timeout', 'The broker does not answer') : null),
  ({ code = '', message }) =>
    /^E[A-Z]+$/.test(code) ? new TaskFailure('unavailable', `The connection broke: ${message || code}`) : null,
  ({ code }) => (code === 'PLT_KFK_NETWORK' ? new TaskFailure('unavailable', 'The connection broke') : null),
]

/** The driver puts errors of several attempts and brokers into each other. */
export function kafkaFailure(error: unknown): TaskFailure {
  const all = [...within(error)]
  for (const kind of kinds) {
    for (const each of all) {
      const failure = kind(each)
      if (failure === null) continue
      if (failure === error) return failure
      return new TaskFailure(failure.kind, failure.message, error)
    }
  }
  return new TaskFailure('refused', (error as Error).message, error)
}

function* within(error: unknown, depth = 0): Generator<KafkaError> {
  if (!(error instanceof Error) || depth > 8) return
  const { errors = [], cause } = error as KafkaError
  for (const each of [...errors, cause]) yield* within(each, depth + 1)
  yield error
}
