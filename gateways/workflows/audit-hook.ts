import type { FastifyInstance, FastifyRequest } from 'fastify'
import { newId } from '../../bus/message.ts'
import type { AuditRecord } from '../../schemas/workflows/audit.ts'
import { webhookKeyId } from '../../schemas/workflows/trigger-key.ts'
import type { AuditTrail } from './audit-trail.ts'
import type { Accounts } from './auth-accounts.ts'
import type { Principal } from './auth-principal.ts'

/** What a route knows better than its request shows. */
export interface AuditNote {
  /** Who acts, where the request does not say. */
  readonly username?: string
  readonly resourceId?: string | null
  /** In place of the answer's code. */
  readonly error?: string
}

declare module 'fastify' {
  interface FastifyRequest {
    auditNote: AuditNote | null
    /**
     * To be called once the command is stored by a route whose answer waits for more: its entry is written meanwhile, and the answer waits for
     * both.
     */
    commandStored(): void
  }
}

const maxTextLength = 256
const idAtTheStart = /^\{"(?:id|executionId)":"([^"\\]{1,256})"/

/**
 * Appends an entry for each request to a route with `config.audit`, before it is answered: when the bus does not take it, the answer is
 * that of the bus. Of bodies nothing gets in but the id of what was made. Refusals to strangers are left out, who could fill the disk.
 */
export function recordCommands(
  app: FastifyInstance,
  { audit, accounts, now }: { readonly audit: AuditTrail; readonly accounts: Accounts; readonly now: () => number },
): void {
  const recorded = new WeakMap<FastifyRequest, Promise<void>>()
  const write = (request: FastifyRequest, statusCode: number, answer: string) => {
    const action = request.routeOptions.config.audit!
    const written = audit.record({
      id: newId(),
      at: now(),
      action,
      resourceType: kindOf(action),
      ...actorOf(request),
      resourceId: resourceOf(request, answer)?.slice(0, maxTextLength) ?? null,
      ...outcomeOf(request, statusCode, answer),
      ip: accounts.addressOf(request),
      requestId: request.id,
    })
    written.catch(() => undefined)
    recorded.set(request, written)
    return written
  }
  app.decorateRequest('auditNote', null)
  app.decorateRequest('commandStored', function () {
    void write(this, 200, '')
  })
  app.addHook('onSend', async (request, reply, payload) => {
    const { audit: action, role } = request.routeOptions.config
    if (action === undefined) return payload
    const { statusCode } = reply
    // What is refused before it is known who asks has nobody's name: a bad token, a foreign page.
    const principal: Principal | null = request.principal
    if (principal === null) return payload
    const isStranger = principal.session === undefined && (accounts.enabled || role === 'public')
    if (isStranger && request.auditNote === null && statusCode >= 400) return payload
    const written = recorded.get(request)
    // What is said when that fails comes here again.
    if (written === undefined) await write(request, statusCode, typeof payload === 'string' ? payload : '')
    else if (statusCode < 400) await written
    return payload
  })
}

function kindOf(action: string): string {
  const kind = action.slice(0, action.indexOf('.'))
  return kind === 'auth' ? 'user' : kind
}

function actorOf({ auditNote, principal }: FastifyRequest): Pick<AuditRecord, 'username' | 'role'> {
  if (auditNote?.username !== undefined) return { username: auditNote.username, role: null }
  return { username: principal.name, role: principal.role }
}

function outcomeOf(
  { auditNote }: FastifyRequest,
  statusCode: number,
  answer: string,
): Pick<AuditRecord, 'outcome' | 'statusCode' | 'error'> {
  if (statusCode < 400) return { outcome: 'SUCCESS', statusCode, error: null }
  const error = auditNote?.error ?? codeOf(answer)
  return { outcome: [401, 403, 429].includes(statusCode) ? 'DENIED' : 'FAILED', statusCode, error }
}

function codeOf(answer: string): string | null {
  return /"code":"([a-z-]+\/[a-z-]+)"/.exec(answer)?.[1] ?? null
}

function resourceOf({ auditNote, params }: FastifyRequest, answer: string): string | null {
  if (auditNote?.resourceId !== undefined) return auditNote.resourceId
  const { id, username, namespace, key } = (params ?? {}) as Readonly<Record<string, string | undefined>>
  const named = id ?? username
  if (named !== undefined) return named
  if (namespace !== undefined) return key === undefined ? namespace : `${namespace}/${key}`
  // Whoever reads it must not be able to call it.
  if (key !== undefined) return webhookKeyId(key)
  return idAtTheStart.exec(answer)?.[1] ?? null
}
