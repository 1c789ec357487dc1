import { createHash, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { newId } from '../../bus/message.ts'
import { sessionSubject } from '../../bus/subject.ts'
import { type User, userKey } from '../../schemas/workflows/user.ts'
import {
  decideEnd,
  decideRefresh,
  isOpen,
  type OpenSession,
  openSession,
  type SessionState,
  session,
} from '../../schemas/workflows/user-session.ts'

const secretBytes = 32
const tokenSyntax = /^([0-9a-f-]{36})\.[A-Za-z0-9_-]{43}$/
/** How long a session that has ended at another gateway may count here. */
const believedMs = 10_000
const maxBelieved = 10_000

export type Refreshed =
  | {
      readonly outcome: 'refreshed'
      readonly sessionId: string
      readonly session: OpenSession
      readonly refreshToken: string
    }
  /** `reused`: it was spent before, and the session has ended now. */
  | { readonly outcome: 'refused' | 'reused'; readonly username: string | null }

/** What logins lead to. Every call can throw {BusUnavailable}. */
export class Sessions {
  readonly #bus: Bus
  readonly #now: () => number
  readonly #believed = new LRUCache<string, OpenSession>({ max: maxBelieved, ttl: believedMs })

  constructor(bus: Bus, now: () => number) {
    this.#bus = bus
    this.#now = now
  }

  async open({
    username,
    userId,
    epoch,
  }: User): Promise<{ readonly sessionId: string; readonly refreshToken: string }> {
    const sessionId = newId()
    const refreshToken = newToken(sessionId)
    const opened = { username, userId, epoch, digest: digestOf(refreshToken) }
    await this.#decide(sessionId, username, () => openSession(opened, this.#now()))
    return { sessionId, refreshToken }
  }

  /** Spends a refresh token for the next one. */
  async refresh(token: string): Promise<Refreshed> {
    const sessionId = sessionOf(token)
    if (sessionId === null) return { outcome: 'refused', username: null }
    const refreshToken = newToken(sessionId)
    const tried = { presented: digestOf(token), next: digestOf(refreshToken) }
    let username: string | null = null
    const { state, facts } = await this.#decide(sessionId, 'busbar', (before) => {
      if (before.stage === 'open') username = before.username
      return decideRefresh(before, { ...tried, at: this.#now() })
    })
    if (state.stage === 'ended') this.#believed.delete(sessionId)
    const [fact] = facts
    if (fact?.type === 'workflows.session.refreshed' && state.stage === 'open') {
      return { outcome: 'refreshed', sessionId, session: state, refreshToken }
    }
    return { outcome: fact === undefined ? 'refused' : 'reused', username }
  }

  /** Whose token it is; null when it is not the one that counts. */
  async holder(token: string): Promise<{ readonly sessionId: string; readonly username: string } | null> {
    const sessionId = sessionOf(token)
    if (sessionId === null) return null
    const { state } = await load(this.#bus, session, placeOf(sessionId))
    if (!isOpen(state, this.#now()) || state.digest !== digestOf(token)) return null
    return { sessionId, username: state.username }
  }

  async end(sessionId: string, username: string): Promise<void> {
    this.#believed.delete(sessionId)
    await this.#decide(sessionId, username, (state) => decideEnd(state, this.#now()))
  }

  /** Whether tokens of a session count for a user as that one is now. */
  async counts(sessionId: string, user: User): Promise<boolean> {
    const state = this.#believed.get(sessionId) ?? (await load(this.#bus, session, placeOf(sessionId))).state
    if (!isOpen(state, this.#now()) || !belongs(state, user)) return false
    this.#believed.set(sessionId, state, { noUpdateTTL: true })
    return true
  }

  async #decide(sessionId: string, actor: string, ask: (state: SessionState) => ReturnType<typeof decideEnd>) {
    return await decide(this.#bus, { ...placeOf(sessionId), aggregate: session, actor, decide: ask })
  }
}

/** Whether a session is one of a user, and not from before all of them have ended. */
export function belongs({ userId, epoch, username }: OpenSession, user: User): boolean {
  return user.enabled && userId === user.userId && epoch === user.epoch && userKey(username) === userKey(user.username)
}

function placeOf(sessionId: string) {
  return { stream: 'SESSIONS', subject: sessionSubject(sessionId) }
}

function newToken(sessionId: string): string {
  return `${sessionId}.${randomBytes(secretBytes).toString('base64url')}`
}

function sessionOf(token: string): string | null {
  return tokenSyntax.exec(token)?.[1] ?? null
}

/** It has as much chance in it as the digest has room for: no salt is needed, and no slow hash. */
function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url')
}
