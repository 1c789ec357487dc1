import type { FastifyInstance } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import { load, loadMessage } from '../../bus/load.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { eventSubject } from '../../bus/subject.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import {
  decideSetEnv,
  type EnvSetFact,
  functionAggregate,
  placed,
  requireDeployed,
} from '../../schemas/functions/function.ts'
import { functionId, invalid, readObject } from './request.ts'
import { allowManagement, type FunctionService } from './service.ts'

const stream = 'EVT_FUNCTIONS'
const namePattern = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/
const maxNames = 100
const maxTotalBytes = 32 * 1024
const attempts = 5
type WithId = { readonly Params: { readonly id: string } }

interface EnvRequest {
  readonly variables: Readonly<Record<string, string>>
  /** Null: as it was. */
  readonly secrets: Readonly<Record<string, string | null>>
}

/** Variables and secrets of a function. A secret goes in and never comes out; null keeps the one there is. */
export function envRoutes(app: FastifyInstance, service: FunctionService): void {
  app.get<WithId>('/scripts/:id/env', async (request) => {
    await allowManagement(service, request)
    const { id, state } = service.view.get(functionId(request.params.id))
    return shown(id, await readEnv(service.bus, state.envSequence))
  })
  app.put<WithId>('/scripts/:id/env', async (request) => {
    await allowManagement(service, request)
    const id = functionId(request.params.id)
    const wanted = readRequest(request.body)
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const sequence = await setEnv(service, id, wanted)
      if (sequence) return shown(id, await readEnv(service.bus, service.view.get(id).state.envSequence))
    }
    throw new Unavailable('http/unavailable', 'The variables are being changed by others; send the request again')
  })
}

/** False when someone else has set them in between. */
async function setEnv({ bus, store, keys }: FunctionService, id: string, wanted: EnvRequest): Promise<boolean> {
  const place = { stream, subject: eventSubject('functions', 'function', id) }
  const { state, sequence } = await load(bus, functionAggregate, place)
  const { envSequence } = requireDeployed(placed(state, sequence), id)
  const before = await readEnv(bus, envSequence)
  let same = true
  await store.change(id, (found, moment) => {
    const current = requireDeployed(placed(found, moment.sequence), id)
    same = current.envSequence === envSequence
    if (!same) return []
    const secrets = sealAll(keys, wanted.secrets, before?.secrets ?? {}, `${owner(id)}${current.envVersion + 1}/`)
    return decideSetEnv(found, { functionId: id, variables: wanted.variables, secrets }, moment)
  })
  return same
}

/** What the context of every sealed value of a function begins with. */
function owner(id: string): string {
  return `functions.function/${id}/env/`
}

function sealAll(
  keys: KeyRing | null,
  wanted: EnvRequest['secrets'],
  before: EnvSetFact['data']['secrets'],
  context: string,
): EnvSetFact['data']['secrets'] {
  return Object.fromEntries(
    Object.entries(wanted).map(([name, text]) => {
      const kept = Object.hasOwn(before, name) ? before[name] : undefined
      if (text === null && kept === undefined) throw invalid(`secrets.${name} is null, and there is none to keep`)
      if (text === null && kept !== undefined) return [name, kept]
      if (keys === null) throw new Rejected('functions/secrets-off', 'Secrets need keys: set app.secrets.keys')
      return [name, keys.seal(text ?? '', `${context}${name}`)]
    }),
  )
}

async function readEnv(bus: Bus, sequence: number | null): Promise<EnvSetFact['data'] | null> {
  if (sequence === null) return null
  const message = await loadMessage(bus, functionAggregate.events, stream, sequence)
  const fact = message?.facts.find((each) => each.type === 'functions.function.env-set')
  return (fact as EnvSetFact | undefined)?.data ?? null
}

function shown(id: string, env: EnvSetFact['data'] | null) {
  return {
    id,
    version: env?.version ?? 0,
    variables: env?.variables ?? {},
    secrets: Object.keys(env?.secrets ?? {}),
  }
}

function readRequest(body: unknown): EnvRequest {
  const given = readObject(body, ['variables', 'secrets'])
  const variables = readTexts(given.variables, 'variables', false) as EnvRequest['variables']
  const secrets = readTexts(given.secrets, 'secrets', true)
  const names = [...Object.keys(variables), ...Object.keys(secrets)]
  const twice = Object.keys(variables).find((name) => Object.hasOwn(secrets, name))
  if (twice !== undefined) throw invalid(`${twice} is both a variable and a secret`)
  if (names.length > maxNames) throw invalid(`There may be ${maxNames} variables and secrets`)
  const values = [...Object.values(variables), ...Object.values(secrets)]
  const sizeBytes = values.reduce((sum, value) => sum + Buffer.byteLength(value ?? ''), 0)
  if (sizeBytes > maxTotalBytes) throw invalid(`Variables and secrets may have ${maxTotalBytes} bytes together`)
  return { variables, secrets }
}

function readTexts(value: unknown, field: string, orNull: boolean): Record<string, string | null> {
  if (value === undefined) return {}
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(`${field} must be an object`)
  for (const [name, text] of Object.entries(value)) {
    if (!namePattern.test(name)) {
      throw invalid(
        `${field}: "${name.slice(0, 100)}" is no name: a letter or "_", then up to 63 letters, digits or "_"`,
      )
    }
    if (typeof text !== 'string' && !(orNull && text === null)) throw invalid(`${field}.${name} must be a string`)
  }
  return value as Record<string, string | null>
}
