import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'

const closed = { additionalProperties: false } as const
const Time = Type.Integer({ description: 'epoch ms' })
const Digest = Type.String({ description: 'SHA-256 of the refresh token, base64url' })

const Opened = defineEvent(
  'workflows.session.opened',
  Type.Object(
    {
      username: Type.String(),
      userId: Type.String(),
      epoch: Type.Integer(),
      digest: Digest,
      at: Time,
      expiresAt: Time,
    },
    closed,
  ),
)
/** The tokens before count no more. */
const Refreshed = defineEvent('workflows.session.refreshed', Type.Object({ digest: Digest, at: Time }, closed))
const Ended = defineEvent(
  'workflows.session.ended',
  Type.Object({ reason: Type.Enum(['logout', 'reuse']), at: Time }, closed),
)

const sessionEvents = defineEvents(Opened, Refreshed, Ended)
type SessionFact = typeof sessionEvents extends EventSet<infer F> ? F : never

export type SessionState =
  | { readonly stage: 'absent' }
  | { readonly stage: 'ended'; readonly reason: string }
  | {
      readonly stage: 'open'
      readonly username: string
      readonly userId: string
      readonly epoch: number
      readonly digest: string
      /** Of the tokens before, the latest ones. */
      readonly spent: readonly string[]
      readonly refreshedAt: number
      readonly expiresAt: number
    }
export type OpenSession = Extract<SessionState, { stage: 'open' }>

const maxSpent = 32
/** A session that is not refreshed for so long has ended. */
const idleMs = 7 * 86_400_000
/** However often it is refreshed. */
const sessionLifeMs = 30 * 86_400_000

/** The refresh tokens that follow from one login. Subject `session.<id>`, stream `SESSIONS`, which keeps the last message. */
export const session: Aggregate<SessionState, SessionFact> = {
  events: sessionEvents,
  initial: { stage: 'absent' },
  evolve(state, fact) {
    switch (fact.type) {
      case 'workflows.session.opened': {
        const { at, ...opened } = fact.data
        return { stage: 'open', ...opened, spent: [], refreshedAt: at }
      }
      case 'workflows.session.refreshed': {
        if (state.stage !== 'open') return state
        const spent = [...state.spent, state.digest].slice(-maxSpent)
        return { ...state, spent, digest: fact.data.digest, refreshedAt: fact.data.at }
      }
      case 'workflows.session.ended':
        return { stage: 'ended', reason: fact.data.reason }
    }
  },
}

export function openSession(
  opened: Omit<OpenSession, 'stage' | 'spent' | 'refreshedAt' | 'expiresAt'>,
  at: number,
): readonly SessionFact[] {
  return [Opened.of({ ...opened, at, expiresAt: at + sessionLifeMs })]
}

/** Whether its tokens count. */
export function isOpen(state: SessionState, now: number): state is OpenSession {
  return state.stage === 'open' && now < Math.min(state.expiresAt, state.refreshedAt + idleMs)
}

/**
 * A token is spent once. One that is sent again is in two hands, and nobody knows which is the right one: the session ends.
 * Nothing for what never was a token of it. Source: RFC 9700, 4.14.2.
 */
export function decideRefresh(
  state: SessionState,
  { presented, next, at }: { readonly presented: string; readonly next: string; readonly at: number },
): readonly SessionFact[] {
  if (!isOpen(state, at)) return []
  if (presented === state.digest) return [Refreshed.of({ digest: next, at })]
  return state.spent.includes(presented) ? [Ended.of({ reason: 'reuse', at })] : []
}

export function decideEnd(state: SessionState, at: number): readonly SessionFact[] {
  return state.stage === 'open' ? [Ended.of({ reason: 'logout', at })] : []
}
