import { createInbox, type Msg, type MsgHdrs } from '@nats-io/nats-core'
import type { Bus } from '../../bus/connect.ts'
import { newId } from '../../bus/message.ts'
import { asking, natsHeaders } from '../../bus/publish.ts'
import { callSubject } from '../../bus/subject.ts'
import { Unavailable } from '../../schemas/failure.ts'
import {
  type Call,
  type CallFault,
  type CallNote,
  type CallReply,
  callHeader,
  noteMs,
  replyHeader,
} from '../../schemas/functions/call.ts'
import type { CallTarget } from '../../schemas/functions/target.ts'

/** What a request is for a function. */
export type CallRequest = Pick<Call, 'method' | 'path' | 'query' | 'headers'> & { readonly body: Uint8Array }

export interface CallAnswer {
  readonly reply: CallReply
  readonly body: Uint8Array
}

export interface CallDeskOptions {
  /** Longest run of a handler. */
  readonly timeoutMs: number
  /** Calls of this gateway at a time. */
  readonly maxCalls: number
}

/** Sends synchronous calls and hands out their answers. */
export interface CallDesk {
  /** @throws {Unavailable} `functions/unavailable`, when nothing was sent. {BusUnavailable} */
  call(target: CallTarget, request: CallRequest): Promise<CallAnswer>
  close(): void
}

/** A call for which no worker has given a sign for so long is looked for. */
const silenceMs = 5 * noteMs
/** How long a call may wait for a worker on top of its own time. */
const queueMs = 10_000
const nothing = new Uint8Array()

interface PendingCall {
  readonly resolve: (answer: CallAnswer) => void
  readonly subject: string
  readonly headers: MsgHdrs
  readonly body: Uint8Array
  readonly idempotent: boolean
  readonly startedAt: number
  /** When it was sent, or a worker said that it has it. */
  aliveAt: number
  noted: boolean
  /** It is in no stream and no worker has it: so it was once already. */
  missing: boolean
  looking: boolean
  resent: boolean
}

/**
 * One inbox for all calls: the last token of an answer's subject is the call's id. Nothing waits for the stream's acknowledgement. A call
 * whose worker is lost is found out without a message for the calls that are quick: a worker notes which calls it has held for a while; a
 * call of which nothing is heard is looked up in the stream, and where it is not there either, its worker has taken it and is gone.
 */
export function openCallDesk(bus: Bus, { timeoutMs, maxCalls }: CallDeskOptions): CallDesk {
  const inbox = createInbox()
  const pending = new Map<string, PendingCall>()
  const prefix = newId().slice(0, 13)
  let count = 0
  const end = (id: string, answer: CallAnswer) => {
    const call = pending.get(id)
    pending.delete(id)
    call?.resolve(answer)
  }
  const subscription = bus.connection.subscribe(`${inbox}.*`, {
    callback: (error, message) => {
      if (error !== null) return
      const id = message.subject.slice(inbox.length + 1)
      if (id !== 'note') end(id, answerOf(message))
      else for (const noted of message.json<CallNote>()) note(pending.get(noted))
    },
  })
  const sweep = setInterval(() => {
    const now = performance.now()
    for (const [id, call] of pending) {
      const ageMs = now - call.startedAt
      if (ageMs > timeoutMs + queueMs) {
        end(id, failed(call.noted ? 'timeout' : 'host-died', ageMs))
      } else if (now - call.aliveAt > silenceMs && !call.looking) {
        void look(bus, call, () => end(id, failed('host-died', ageMs)))
      }
    }
  }, noteMs)
  return {
    call(target, { body, ...request }) {
      bus.requireConnected()
      if (pending.size >= maxCalls) {
        throw new Unavailable('functions/unavailable', 'As many calls as may be are waiting for their answer')
      }
      const id = `${prefix}-${(count++).toString(36)}`
      const at = Date.now()
      const subject = callSubject(target.fn, id)
      const call: Call = {
        id,
        ...target,
        at,
        deadlineAt: at + timeoutMs + queueMs,
        ...request,
        reply: `${inbox}.${id}`,
      }
      const headers = natsHeaders({ [callHeader]: JSON.stringify(call) })
      return new Promise((resolve) => {
        const now = performance.now()
        const idempotent = target.idempotent === true
        const state = { noted: false, missing: false, looking: false, resent: false }
        pending.set(id, { resolve, subject, headers, body, idempotent, startedAt: now, aliveAt: now, ...state })
        bus.connection.publish(subject, body, { headers })
      })
    },
    close() {
      clearInterval(sweep)
      subscription.unsubscribe()
      for (const id of [...pending.keys()]) end(id, failed('host-died', 0))
    },
  }
}

function note(call: PendingCall | undefined): void {
  if (call === undefined) return
  call.aliveAt = performance.now()
  call.noted = true
  call.missing = false
}

/** In the stream: it waits for a worker. In none, twice: who took it is gone, for a worker that has it says so. */
async function look(bus: Bus, call: PendingCall, lost: () => void): Promise<void> {
  call.looking = true
  try {
    const waiting = await asking(bus, () => bus.manager.direct.getMessage('CALLS', { last_by_subj: call.subject }))
    if (performance.now() - call.aliveAt < silenceMs) return
    if (waiting !== null) call.missing = false
    else if (!call.missing) call.missing = true
    else if (call.idempotent && !call.resent) sendAgain(bus, call)
    else lost()
  } catch {
    // The bus is away: it is looked for again.
  } finally {
    call.looking = false
  }
}

function sendAgain(bus: Bus, call: PendingCall): void {
  call.resent = true
  call.missing = false
  call.aliveAt = performance.now()
  bus.connection.publish(call.subject, call.body, { headers: call.headers })
}

function answerOf(message: Msg): CallAnswer {
  const reply = JSON.parse(
    message.headers?.get(replyHeader) || '{"status":500,"durationMs":0,"worker":""}',
  ) as CallReply
  return { reply, body: message.data }
}

function failed(code: CallFault['code'], durationMs: number): CallAnswer {
  return { reply: { status: 500, fault: { code, message: '' }, durationMs, worker: '' }, body: nothing }
}
