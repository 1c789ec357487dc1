import type { FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import {
  type CredentialData,
  type CredentialState,
  credentialFieldPattern,
  credentialNamePattern,
  type SaveCredential,
} from '../../schemas/workflows/credential.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { defaultNamespace, namespaceField } from './flow-text.ts'
import { textField } from './request.ts'
import type { WorkflowService } from './service.ts'

/** What a request says; what is left out stays, or has a default. */
export interface CredentialBody {
  readonly name?: string
  readonly namespace?: string
  readonly type?: string
  readonly description?: string
  readonly data?: CredentialData
}

const maxDataBytes = 32 * 1024
const maxFields = 64
const maxDescription = 1_000
const defaultType = 'generic'
const [name, field, type] = [credentialNamePattern, credentialFieldPattern, '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'].map(
  (pattern) => new RegExp(pattern),
) as [RegExp, RegExp, RegExp]

/** @throws {Rejected} `http/bad-request` naming the field, never quoting the data */
export function credentialBodyOf(request: FastifyRequest): CredentialBody {
  const body = bodyOf(request, ['name', 'namespace', 'type', 'description', 'data'])
  return {
    ...(body.name !== undefined && { name: nameOf(body.name) }),
    ...(body.namespace !== undefined && { namespace: namespaceField(body.namespace) }),
    ...(body.type !== undefined && { type: typeOf(body.type) }),
    ...(body.description !== undefined && {
      description: textField('description', body.description, { max: maxDescription }),
    }),
    ...(body.data !== undefined && { data: dataOf(body.data) }),
  }
}

/**
 * What the credential shall be from now on.
 * @throws {Rejected} `http/bad-request` when a new one lacks what it needs; `workflows/secrets-off`
 */
export function credentialDraft(
  { keys }: Pick<WorkflowService, 'keys'>,
  before: CredentialState,
  { data, ...body }: CredentialBody,
  own: Pick<SaveCredential, 'credentialId' | 'by' | 'at'>,
): SaveCredential {
  const known = before.stage === 'saved' ? before.saved : null
  const { namespace = known?.namespace ?? defaultNamespace, type = known?.type ?? defaultType } = body
  const { name = known?.name, description = known?.description ?? '' } = body
  if (name === undefined) throw invalid('name', 'is required')
  if (keys === null) throw new Rejected('workflows/secrets-off', 'Credentials need keys: set app.secrets.keys')
  const told = { ...own, name, namespace, type, description }
  if (data === undefined) return told
  const fields = typeof data === 'string' ? null : Object.keys(data)
  return { ...told, data: { fields, seal: (context) => keys.seal(JSON.stringify(data), context) } }
}

function nameOf(value: unknown): string {
  const text = textField('name', value, { min: 1, max: 100 })
  if (name.test(text)) return text
  throw invalid('name', 'must be capital letters, digits and _, and begin with a letter: DB_PASSWORD')
}

function typeOf(value: unknown): string {
  const text = textField('type', value, { min: 1, max: 64 })
  if (type.test(text)) return text
  throw invalid('type', 'must hold letters, digits, dots, _ and - only, and begin with a letter or digit')
}

function dataOf(data: unknown): CredentialData {
  if (typeof data === 'string') {
    if (data === '') throw invalid('data', 'must not be empty')
    return sized(data)
  }
  if (typeof data !== 'object' || data === null || Array.isArray(data)) {
    throw invalid('data', 'must be a text, or an object of texts')
  }
  const fields = Object.entries(data)
  if (fields.length === 0 || fields.length > maxFields) throw invalid('data', `must have 1 to ${maxFields} fields`)
  for (const [name, text] of fields) {
    if (!field.test(name)) {
      throw invalid('data', 'has a field whose name is not letters, digits and _, beginning with a letter or _')
    }
    if (typeof text !== 'string') throw invalid(`data.${name}`, 'must be a text')
  }
  return sized(data as Record<string, string>)
}

function sized<Data extends CredentialData>(data: Data): Data {
  const texts: readonly string[] = typeof data === 'string' ? [data] : Object.values(data)
  if (!texts.every((text) => text.isWellFormed())) throw invalid('data', 'must be well-formed Unicode')
  if (Buffer.byteLength(JSON.stringify(data)) <= maxDataBytes) return data
  throw invalid('data', `has more than ${maxDataBytes} bytes`)
}
