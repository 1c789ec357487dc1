import { LRUCache } from 'lru-cache'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { type Table, tableKey } from '../data/catalog.ts'
import { accessTo, type ChangeAccess } from '../data/changes-access.ts'
import type { Change } from '../data/changes-event.ts'
import { ChangeGuard } from '../data/changes-guard.ts'
import type { ChangeHub } from '../data/changes-hub.ts'
import { Places } from '../data/changes-places.ts'
import type { GapNotice } from '../data/changes-subscription.ts'
import { isStale } from '../data/stale.ts'
import type { CallContext } from '../data/statement.ts'
import type { Principal } from '../http/auth.ts'
import { type Operation, readOperation } from './execute.ts'
import type { GraphqlService } from './handler.ts'
import type { SchemaState } from './schema-state.ts'
import { unsentIn, writeEvent } from './subscription-event.ts'
import {
  LiveSubscription,
  type Opening,
  type SubscriptionSource,
  type SubscriptionTarget,
} from './subscription-live.ts'
import {
  planSubscription,
  prepareSubscription,
  RequestErrors,
  type SubscriptionPlan,
  UnreadableColumn,
} from './subscription-plan.ts'

export interface SubscriptionsOptions {
  readonly service: GraphqlService
  /** Null: the bus is off. */
  readonly hub: ChangeHub | null
  readonly catalog: ConstructorParameters<typeof ChangeGuard>[0]['catalog']
  /** How often the rights of open streams are looked at again. Default 10,000. */
  readonly recheckMs?: number
}

/** Different selections whose events are kept while they are on their way. */
const maxSelections = 1_000
/** Subscriptions that ask the database at one time what they may begin with: a crowd of them leaves room for queries. */
const maxBeginning = 64

/** The subscriptions of a gateway, all on the one consumer of its hub. */
export class Subscriptions implements SubscriptionSource {
  readonly hub: ChangeHub | null
  readonly guard: ChangeGuard
  readonly #service: GraphqlService
  readonly #beginning = new Places(maxBeginning)
  /** Rights that are being asked for. */
  readonly #accesses = new Map<string, Promise<ChangeAccess>>()
  readonly #payloads = new LRUCache<string, WeakMap<Change, string>>({ max: maxSelections })

  constructor({ service, hub, catalog, recheckMs = 10_000 }: SubscriptionsOptions) {
    this.hub = hub
    this.#service = service
    this.guard = new ChangeGuard({ catalog, database: service.database, recheckMs })
  }

  /**
   * Everything that can refuse a subscription, before anything of it is sent.
   * @throws {RequestErrors | Rejected | Unavailable}
   */
  async open(operation: Operation, principal: Principal): Promise<Opening> {
    const { table, types } = planSubscription(operation)
    if (this.hub === null) throw changesOff()
    await this.hub.requireAvailable(table.schema, table.name, types)
    return await this.#beginning.take(() => this.#prepare(operation, principal))
  }

  /**
   * The same subscription after the schema has changed. It keeps its place: neither the limit of clients nor an absent bus ends what
   * runs.
   * @throws of what does not fit any more
   */
  async reopen(operation: Operation, principal: Principal): Promise<Opening> {
    return await this.#beginning.take(async () => {
      const state = await this.#service.watch.viewOf(principal).current()
      return await this.#prepare(onSchema(operation, state), principal)
    })
  }

  /** Sends changes from now on into the target, until it is closed or told why there are no more. */
  start(opening: Opening, target: SubscriptionTarget): LiveSubscription {
    return new LiveSubscription(this, opening, target)
  }

  async close(): Promise<void> {
    this.guard.close()
    await this.hub?.close()
  }

  /** On a fresh schema when this one may be out of date. */
  async #prepare(operation: Operation, principal: Principal): Promise<Opening> {
    try {
      return await this.#prepareOn(operation, principal)
    } catch (error) {
      if (!isStale(error) && !(error instanceof UnreadableColumn)) throw error
      const state = await this.#service.watch.viewOf(principal).reload()
      if (state === operation.state) throw error
      return await this.#prepareOn(onSchema(operation, state), principal)
    }
  }

  async #prepareOn(operation: Operation, principal: Principal): Promise<Opening> {
    const plan = planSubscription(operation)
    const { schema, name } = plan.table
    // As everybody sees it: what the guard compares with. Of a role's schema columns are missing.
    const { catalog } = this.#service.watch.current()
    const table = catalog.tables.get(tableKey(schema, name))
    if (table === undefined) throw new Rejected('data/unknown-table', `The table ${name} is gone`)
    const { role, claims, anonymous } = principal
    const context = {
      ...{ anonymous, readOnly: true },
      ...(role === undefined ? {} : { role }),
      ...(claims === undefined ? {} : { claims }),
    }
    const access = await this.#accessTo(table, context, catalog.version)
    const prepared = await prepareSubscription({ ...plan, table }, access, this.#service.database, context)
    return { ...prepared, plan, operation, principal, payload: this.#payloadOf(plan) }
  }

  /** The role alone decides over rights: of those who ask at one time, one asks the database. */
  #accessTo(table: Table, context: CallContext, version: string): Promise<ChangeAccess> {
    const key = JSON.stringify([table.oid, version, context.role ?? null, context.anonymous ?? null])
    let access = this.#accesses.get(key)
    if (!access) {
      access = accessTo(table, this.#service.database, context).finally(() => this.#accesses.delete(key))
      this.#accesses.set(key, access)
    }
    return access
  }

  #payloadOf({ property, event }: SubscriptionPlan): Opening['payload'] {
    const key = JSON.stringify([property, event])
    let known = this.#payloads.get(key)
    if (!known) {
      known = new WeakMap()
      this.#payloads.set(key, known)
    }
    const payloads = known
    const write = (change: Change, gap: GapNotice | null): string => {
      const unsent = unsentIn(event, change).map((path) => [property, ...path])
      const extensions = { ...(unsent.length > 0 ? { unsent } : {}), ...(gap === null ? {} : { gap }) }
      const rest = Object.keys(extensions).length > 0 ? `,"extensions":${JSON.stringify(extensions)}` : ''
      return `{"data":{${JSON.stringify(property)}:${writeEvent(event, change)}}${rest}}`
    }
    return (change, gap) => {
      if (gap !== null) return write(change, gap)
      let payload = payloads.get(change)
      if (payload === undefined) {
        payload = write(change, null)
        payloads.set(change, payload)
      }
      return payload
    }
  }
}

/** @throws {RequestErrors} when the document does not fit the schema */
function onSchema(operation: Operation, state: SchemaState): Operation {
  const { document } = operation.document
  const text = document.loc?.source.body
  // Many clients send the same text, which is validated once.
  const read = text === undefined ? state.documents.check(document) : state.documents.read(text)
  const again = readOperation(state, read, operation.node.name?.value, operation.variables)
  if ('errors' in again) throw new RequestErrors(again.errors)
  return again
}

function changesOff(): Unavailable {
  return new Unavailable('data/changes-unavailable', 'Change streams are off', {
    retryAfterSeconds: 60,
    hint: 'Set app.nats.enabled (APP_NATS_ENABLED) to true and app.nats.url to a nats-server with JetStream.',
  })
}
