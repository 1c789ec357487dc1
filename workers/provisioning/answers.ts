import type { Msg } from '@nats-io/nats-core'
import type { Bus } from '../../bus/connect.ts'
import { provisioningSubject } from '../../bus/subject.ts'
import { type InstanceState, requireInstance } from '../../schemas/provisioning/instance.ts'
import type { Answer, Question } from '../../schemas/provisioning/question.ts'
import type { DatabaseType } from '../../schemas/provisioning/tiers.ts'
import type { Driver } from './driver.ts'
import { explain } from './explain.ts'
import type { Watch } from './watching.ts'

export type AnswerObservation = {
  readonly type: 'question-failed'
  readonly question: string
  readonly error: unknown
}

/** What a worker knows. */
interface Known {
  readonly driver: Driver
  stateOf(projectName: string): InstanceState
  /** Null: not measured. */
  watchOf(projectName: string): Watch | null
}

/** Answers what gateways ask of this place: what can be read, and needs no operation. */
export function answerQuestions(
  bus: Bus,
  known: Known,
  onObservation: (observation: AnswerObservation) => void,
): { stop(): void } {
  const { driver } = known
  const answer = async (message: Msg) => {
    let asked: Question = { question: '', params: {} }
    let reply: Answer
    try {
      asked = message.json<Question>()
      reply = { answer: (await answerOf(known, asked)) ?? null }
    } catch (error) {
      reply = { failure: explain(error) }
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
  { driver, stateOf, watchOf }: Known,
  { question, projectId, params }: Question,
): Promise<unknown> {
  if (question === 'engines') return { driver: driver.name, place: driver.place, engines: await driver.engines() }
  if (question === 'install') return await driver.install(params.databaseType as DatabaseType)
  const found = requireInstance(stateOf(projectId ?? ''), projectId ?? '')
  const watch = watchOf(found.projectName)
  if (question === 'metrics') return (await watch?.current()) ?? null
  if (question === 'metrics-history') return watch?.history(Number(params.limit)) ?? []
  return await driver.ask(question, found, params)
}
