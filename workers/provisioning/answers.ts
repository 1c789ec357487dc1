import type { Msg } from '@nats-io/nats-core'
import type { Bus } from '../../bus/connect.ts'
import { provisioningSubject } from '../../bus/subject.ts'
import { Rejected } from '../../schemas/failure.ts'
import { type InstanceState, requireInstance } from '../../schemas/provisioning/instance.ts'
import type { OperationType } from '../../schemas/provisioning/instance-facts.ts'
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

/** Answers what gateways ask of this place, once it resolves: what can be read, and needs no operation. */
export async function answerQuestions(
  bus: Bus,
  known: Known,
  onObservation: (observation: AnswerObservation) => void,
): Promise<{ stop(): void }> {
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
    try {
      message.respond(textOf(reply, bus.connection.info?.max_payload))
    } catch (error) {
      // Nobody hears it: the connection has gone.
      onObservation({ type: 'question-failed', question: asked.question, error })
    }
  }
  const callback = (error: Error | null, message: Msg) => {
    if (error === null) void answer(message)
  }
  const subscriptions = [
    // By one of them, where two look after a place for a moment.
    bus.connection.subscribe(provisioningSubject(driver.place), { callback, queue: 'workers-provisioning' }),
    bus.connection.subscribe(provisioningSubject('any'), { callback, queue: 'workers-provisioning' }),
  ]
  // Before the server has read of them, whoever asks is told that nobody is there. After a loss of the connection it is told again.
  if (bus.connected) await bus.connection.flush().catch(() => undefined)
  return { stop: () => subscriptions.forEach((each) => void each.unsubscribe()) }
}

/** What does not fit into a message is refused: the client library throws at it. */
function textOf(reply: Answer, maxBytes = 1024 * 1024): string {
  const text = JSON.stringify(reply)
  if (Buffer.byteLength(text) <= maxBytes) return text
  return JSON.stringify({ failure: explain(tooLarge()) } satisfies Answer)
}

function tooLarge(): Rejected {
  return new Rejected('provisioning/answer-too-large', 'The answer is too large to be told at once', {
    hint: 'Ask for less: fewer lines, a lower limit.',
  })
}

async function answerOf(
  { driver, stateOf, watchOf }: Known,
  { question, projectId, params }: Question,
): Promise<unknown> {
  if (question === 'engines') return { driver: driver.name, place: driver.place, engines: await driver.engines() }
  if (question === 'install') return await driver.install(params.databaseType as DatabaseType)
  if (question === 'check-new-parameters') {
    return await driver.checkNewParameters(params as unknown as Parameters<Driver['checkNewParameters']>[0])
  }
  const found = requireInstance(stateOf(projectId ?? ''), projectId ?? '')
  const watch = watchOf(found.projectName)
  // Throws where it cannot be done.
  if (question === 'check-operation') return void driver.plan(params.type as OperationType, found)
  // Ready a moment ago: what watches it has not begun.
  if (question === 'metrics') return (await watch?.current()) ?? (found.created ? await driver.measure(found) : null)
  return await driver.ask(question, found, params)
}
