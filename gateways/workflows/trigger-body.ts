import { randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { isTemplate, propertyProblems } from '../../schemas/workflows/input-schema.ts'
import { templateMistake } from '../../schemas/workflows/template.ts'
import type { Saved, TriggerState } from '../../schemas/workflows/trigger.ts'
import { isCredential, type TriggerType, triggerConfigs, triggerMistake } from '../../schemas/workflows/trigger-plan.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { objectField, textField } from './request.ts'
import type { WorkflowService } from './service.ts'

const maxNameLength = 100
const maxSecretLength = 1_000
const maxInputsBytes = 64 * 1024

/** What a request says of a trigger; what is left out stays as it is. */
export interface TriggerBody {
  readonly flowId?: string
  readonly type?: TriggerType
  readonly name?: string
  readonly enabled?: boolean
  readonly config?: Readonly<Record<string, unknown>>
  readonly inputs?: Readonly<Record<string, unknown>>
}

/** @throws {Rejected} `http/bad-request` */
export function triggerBodyOf(request: FastifyRequest): TriggerBody {
  const { flowId, type, name, enabled, config, inputs } = bodyOf(request, [
    'flowId',
    'type',
    'name',
    'enabled',
    'config',
    'inputs',
  ])
  return {
    ...(flowId !== undefined && { flowId: textField('flowId', flowId, { min: 1, max: 100 }) }),
    ...(type !== undefined && { type: typeField('type', type) }),
    ...(name !== undefined && { name: textField('name', name, { min: 1, max: maxNameLength }) }),
    ...(enabled !== undefined && { enabled: flagField('enabled', enabled) }),
    ...(config !== undefined && { config: objectField('config', config) }),
    ...(inputs !== undefined && { inputs: inputsField(objectField('inputs', inputs)) }),
  }
}

/** @throws {Rejected} `http/bad-request` */
export function typeField(field: string, value: unknown): TriggerType {
  if (typeof value === 'string' && Object.hasOwn(triggerConfigs, value)) return value as TriggerType
  throw invalid(field, `must be one of ${Object.keys(triggerConfigs).join(', ')}`)
}

function flagField(field: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw invalid(field, 'must be true or false')
}

function inputsField(inputs: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  if (JSON.stringify(inputs).length > maxInputsBytes) throw invalid('inputs', `is larger than ${maxInputsBytes} bytes`)
  checkTexts('inputs', inputs)
  return inputs
}

function checkTexts(field: string, value: unknown): void {
  if (typeof value === 'object' && value !== null) {
    for (const [name, each] of Object.entries(value)) checkTexts(`${field}.${name.slice(0, 100)}`, each)
  } else if (typeof value === 'string' && isTemplate(value)) {
    const mistake = templateMistake(value)
    if (mistake !== null) throw invalid(field, `is no template: ${mistake}`)
  }
}

/**
 * The trigger that a body makes of the one that is there.
 * @throws {Rejected} `http/bad-request`
 */
export function draftOf(
  { keys }: Pick<WorkflowService, 'keys'>,
  triggerId: string,
  before: TriggerState,
  body: TriggerBody,
  { by, at }: { readonly by: string; readonly at: number },
): Saved {
  const known = before.stage === 'saved' ? before.saved : undefined
  const type = body.type ?? known?.type
  const flowId = body.flowId ?? known?.flowId
  if (type === undefined) throw invalid('type', 'is required')
  if (flowId === undefined) throw invalid('flowId', 'is required')
  if (known !== undefined && type !== known.type) throw invalid('type', `is ${known.type} and cannot be changed`)
  if (known !== undefined && flowId !== known.flowId) throw invalid('flowId', 'cannot be changed')
  const enabled = body.enabled ?? (before.stage === 'saved' ? before.enabled : true)
  const named = { triggerId, flowId, type, name: body.name ?? known?.name ?? type, enabled, by, at }
  const own = { ...named, inputs: body.inputs ?? known?.inputs ?? {}, declared: false }
  return { ...own, ...configOf(keys, known, type, triggerId, body.config) }
}

type Kept = Pick<Saved, 'config' | 'secret'>

function configOf(
  keys: WorkflowService['keys'],
  known: Saved | undefined,
  type: TriggerType,
  triggerId: string,
  given: Readonly<Record<string, unknown>> | undefined,
): Kept {
  if (given === undefined && known !== undefined) {
    return { config: known.config, ...(known.secret && { secret: known.secret }) }
  }
  const { secret, ...config } = given ?? {}
  const sealed = type === 'webhook' ? secretOf(keys, known, triggerId, secret) : { secret }
  const kept: Record<string, unknown> = { ...config }
  if (type === 'webhook') kept.key ??= known?.config.key ?? randomBytes(32).toString('base64url')
  if (typeof sealed.secret === 'string') kept.secret = sealed.secret
  checkConfig(type, kept)
  return {
    config: kept,
    ...(typeof sealed.secret === 'object' && { secret: sealed.secret as Saved['secret'] & object }),
  }
}

/** A credential's name stays a name; another text is sealed; null takes it away; left out it stays. */
function secretOf(
  keys: WorkflowService['keys'],
  known: Saved | undefined,
  triggerId: string,
  given: unknown,
): { readonly secret?: unknown } {
  if (given === undefined) return { secret: known?.secret ?? known?.config.secret }
  if (given === null) return {}
  const secret = textField('config.secret', given, { min: 1, max: maxSecretLength })
  if (isCredential(secret)) return { secret }
  if (secret.length < 16)
    throw invalid('config.secret', 'must have 16 characters at least, or be a credential: ${NAME}')
  if (keys === null) {
    throw new Rejected('http/bad-request', 'config.secret cannot be kept: the platform has no app.secrets.keys', {
      details: { field: 'config.secret', reason: 'cannot be kept' },
    })
  }
  return { secret: keys.seal(secret, `trigger/${triggerId}/secret`) }
}

function checkConfig(type: TriggerType, config: Readonly<Record<string, unknown>>): void {
  const [problem] = propertyProblems(triggerConfigs[type], config)
  if (problem !== undefined) throw invalid(['config', ...problem.path].join('.'), problem.message)
  const templated = Object.entries(config).find(([name, value]) => {
    return name !== 'secret' && typeof value === 'string' && isTemplate(value)
  })
  if (templated !== undefined) throw invalid(`config.${templated[0]}`, 'takes no template')
  const mistake = triggerMistake(type, config)
  if (mistake !== null) throw invalid(`config.${mistake.member}`, mistake.message)
}
