import type { FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { maxFlowNameLength, namespacePattern, readFlow } from '../../schemas/workflows/flow-yaml.ts'
import { maxYamlBytes } from '../../schemas/workflows/yaml-source.ts'
import { bodyOf, invalid } from '../http/request.ts'
import type { FlowDraft, SavedFlow } from './flow-store.ts'
import { textField } from './request.ts'
import type { WorkflowService } from './service.ts'

/** Media types under which a flow's YAML is sent as it is. */
export const yamlTypes = ['application/yaml', 'application/x-yaml', 'text/yaml', 'text/x-yaml', 'text/plain']
export const defaultNamespace = 'default'

export interface FlowBody {
  readonly yamlContent?: string
  readonly name?: string
  readonly namespace?: string
}

/** `{name, namespace, yamlContent}` as JSON, or the YAML itself. @throws {Rejected} `http/bad-request` */
export function flowBodyOf(request: FastifyRequest, more: readonly string[] = []): FlowBody {
  const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? ''
  if (yamlTypes.includes(type)) return { yamlContent: (request.body as Buffer).toString('utf8') }
  return flowFields(bodyOf(request, ['name', 'namespace', 'yamlContent', ...more]))
}

function flowFields({ yamlContent, name, namespace }: Readonly<Record<string, unknown>>): FlowBody {
  return {
    ...(yamlContent !== undefined && { yamlContent: textField('yamlContent', yamlContent, { max: maxYamlBytes }) }),
    ...(name !== undefined && { name: nameField(name) }),
    ...(namespace !== undefined && { namespace: namespaceField(namespace) }),
  }
}

function nameField(value: unknown): string {
  const name = textField('name', value, { min: 1, max: maxFlowNameLength })
  if (name.trim() !== '') return name
  throw invalid('name', 'must not be empty')
}

/** @throws {Rejected} `http/bad-request` */
export function namespaceField(value: unknown): string {
  const namespace = textField('namespace', value, { min: 1, max: 100 })
  if (new RegExp(namespacePattern).test(namespace)) return namespace
  throw invalid('namespace', 'must hold letters, digits, dots, _ and - only, and begin with a letter or digit')
}

/** @throws {Rejected} `workflows/invalid-flow` with every mistake */
function readText({ plugins }: Pick<WorkflowService, 'plugins'>, yamlContent: string) {
  const read = readFlow(yamlContent, plugins)
  if (read.plan !== null) return read
  const [first] = read.problems
  const where = `line ${first!.line}, column ${first!.column}${first!.path === '' ? '' : `, ${first!.path}`}`
  const more = read.problems.length > 1 ? ` (and ${read.problems.length - 1} more)` : ''
  throw new Rejected('workflows/invalid-flow', `${where}: ${first!.message}${more}`, {
    details: { errors: read.problems },
  })
}

/** What the body says goes before what the YAML says. @throws {Rejected} `workflows/invalid-flow`, `http/bad-request` */
export function newDraft(service: Pick<WorkflowService, 'plugins'>, body: FlowBody): FlowDraft {
  if (body.yamlContent === undefined) throw invalid('yamlContent', 'is required')
  const { plan, namespace } = readText(service, body.yamlContent)
  return {
    plan,
    yamlContent: body.yamlContent,
    name: body.name ?? plan.name,
    namespace: body.namespace ?? namespace ?? defaultNamespace,
  }
}

/** What is left out stays; a name that followed the YAML goes on to. @throws {Rejected} as `newDraft` */
export function changedDraft(
  service: Pick<WorkflowService, 'plugins'>,
  { latest }: SavedFlow,
  { yamlContent = latest.yamlContent, name, namespace }: FlowBody,
): FlowDraft {
  const { plan, namespace: written } = readText(service, yamlContent)
  const follows = latest.name === latest.plan.name
  return {
    plan,
    yamlContent,
    name: name ?? (follows ? plan.name : latest.name),
    namespace: namespace ?? written ?? latest.namespace,
  }
}
