import { suggestion } from './flow-fields.ts'
import type { InputPlan } from './flow-plan.ts'
import { isTemplate } from './input-schema.ts'
import { templateMistake, templateReferences } from './template.ts'
import type { Path, YamlSource } from './yaml-source.ts'

/** What a template of a flow can name. */
export interface TemplateNames {
  /** Of all tasks of the flow. */
  readonly tasks: ReadonlySet<string>
  readonly inputs: readonly InputPlan[]
  readonly variables: ReadonlySet<string>
}

const roots = [
  'inputs',
  'outputs',
  'vars',
  'execution',
  'trigger',
  'labels',
  'kv',
  'failure',
  'item',
  'index',
  'parent',
] as const

type Root = (typeof roots)[number]

/** Tells of every text in a value what is wrong with it as a template. @param known what it can name at all: outside of executions less */
export function checkTemplates(
  source: YamlSource,
  path: Path,
  value: unknown,
  names: TemplateNames,
  known: readonly Root[] = roots,
): void {
  if (typeof value === 'object' && value !== null) {
    const list = Array.isArray(value)
    for (const [key, each] of Object.entries(value))
      checkTemplates(source, [...path, list ? Number(key) : key], each, names, known)
    return
  }
  if (typeof value !== 'string' || !isTemplate(value)) return
  const mistake = templateMistake(value)
  if (mistake !== null) {
    source.add(path, `is no template: ${mistake}`)
    return
  }
  const told = new Set<string>()
  for (const [root, member] of templateReferences(value)) {
    const problem = referenceProblem(String(root), member, names, known)
    if (problem !== null && !told.has(problem)) source.add(path, problem)
    if (problem !== null) told.add(problem)
  }
}

function referenceProblem(
  root: string,
  member: unknown,
  { tasks, inputs, variables }: TemplateNames,
  there: readonly string[],
): string | null {
  if (!there.includes(root)) {
    return `names ${root}, which there is not${suggestion(root, there)}`
  }
  if (typeof member !== 'string') return null
  const known = { outputs: [...tasks], inputs: inputs.map(({ name }) => name), vars: [...variables] }[root]
  // A flow without declared inputs takes what comes.
  if (known === undefined || known.includes(member) || (root === 'inputs' && inputs.length === 0)) return null
  const what = { outputs: 'a task', inputs: 'an input', vars: 'a variable' }[root]
  return `names ${what} ${member} that the flow does not have${suggestion(member, known)}`
}
