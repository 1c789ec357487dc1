import type { Static } from 'typebox'
import type { TaskRun } from '../../plugin.ts'
import type { Broken, Inbox } from './broker.ts'
import type { ExchangeInput, ExchangeOutput } from './exchange-properties.ts'

/** What a way of talking to a server gets. */
export interface ExchangeRun {
  readonly given: TaskRun<ExchangeInput>
  /** Rejects when the task is cancelled or the connection breaks. */
  readonly broken: Broken
  /** What is sent, in order. */
  readonly outgoing: readonly Buffer[]
  /** What has come; takes only what is wanted. */
  readonly inbox: Inbox
}

export type Told = Partial<Static<typeof ExchangeOutput>>
