import type { Msg } from '@nats-io/nats-core'
import type { Bus } from '../../bus/connect.ts'
import { provisioningSubject } from '../../bus/subject.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { type InstanceState, requireInstance } from '../../schemas/provisioning/instance.ts'
import type { Answer, Question } from '../../schemas/provisioning/question.ts'
import type { DatabaseType } from '../../schemas/provisioning/tiers.ts'
import type { Driver } from './driver.ts'

export type AnswerObservation = {
  readonly type: 'question-failed'
  readonly question: string
  readonly error: unknown
}

/** Answers what gateways ask of this place: what can be read, and needs no operation. */
export function answerQuestions(
  bus: Bus,
  driver: Driver,
  stateOf: (projectName: string) => InstanceState,
  onObservation: (observation: AnswerObservation) => void,
): { stop(): void } {
  const answer = async (message: Msg) => {
    let asked: Question = { question: '', params: {} }
    let reply: Answer
    try {
      asked = message.json<Question>()
      reply = { answer: (await answerOf(driver, stateOf, asked)) ?? null }
    } catch (error) {
      reply = { failure: failureOf(error) }
      if (reply.failure.kind === 'fault') onObservation({ type: 'question-failed', question: asked.question, error })
    }
    message.respond(JSON.stringify(reply))
  }
  const callback = (error: Error | null, message: Msg) => {
    if (error === null) void answer(message)
  }
  const subscriptions = [
    bus.connection.subscribe(provisioningSubject(driver.place), { callback }),
    bus.connection.subscribe(provisioningSubject('any'), { callback, queue: 'workers-provisioning' }),
  ]
  return { stop: () => subscriptions.forEach((each) => void each.unsubscribe()) }
}

async function answerOf(
  driver: Driver,
  stateOf: (projectName: string) => InstanceState,
  { question, projectId, params }: Question,
): Promise<unknown> {
  if (question === 'engines') return { driver: driver.name, place: driver.place, engines: await driver.engines() }
  if (question === 'install') return await driver.install(params.databaseType as DatabaseType)
  return await driver.ask(question, requireInstance(stateOf(projectId ?? ''), projectId ?? ''), params)
}

type Failure = Extract<Answer, { failure: unknown }>['failure']

function failureOf(error: unknown): Failure {
  if (error instanceof Rejected) return { kind: 'rejected', ...toldOf(error) }
  if (error instanceof Unavailable) return { kind: 'unavailable', ...toldOf(error) }
  const { name, kind, status, message, field, details } = error as Error & {
    readonly kind?: string
    readonly status?: number
    readonly field?: string
    readonly details?: object
  }
  if (name !== 'CareFailure') {
    return { kind: 'fault', code: 'http/internal', message: 'Something went wrong on our side' }
  }
  if (kind === 'unavailable') return { kind: 'unavailable', code: 'http/unavailable', message }
  if (kind !== 'refused') return { kind: 'rejected', code: 'provisioning/operation-failed', message }
  const told = { ...details, ...(field !== undefined && { field, reason: message }) }
  return { kind: 'rejected', code: codeOf(status ?? 400), message, details: told }
}

/** The care functions know statuses, the API codes. */
function codeOf(status: number): string {
  if (status === 404) return 'provisioning/backup-not-found'
  if (status === 409) return 'provisioning/invalid-state'
  if (status === 422) return 'provisioning/unsupported'
  if (status === 424) return 'provisioning/engine-missing'
  return 'http/bad-request'
}

function toldOf({ code, message, details, hint }: Rejected | Unavailable) {
  return { code, message, ...(details !== undefined && { details }), ...(hint !== undefined && { hint }) }
}
