import { type FlowPlan, tasksOf } from '../../schemas/workflows/flow-plan.ts'
import { credentialsIn } from '../../schemas/workflows/template.ts'
import type { CredentialView } from './credentials-view.ts'

/** What may be meant, and will not run as it stands. */
export interface FlowWarning {
  readonly path: string
  readonly message: string
}

/** Credentials that a flow names and its namespace does not have, or where nobody opens them. A flow may be there before they are. */
export function credentialWarnings(
  { has }: Pick<CredentialView, 'has'>,
  namespace: string,
  plan: FlowPlan,
): readonly FlowWarning[] {
  const tasks = [...tasksOf(plan.tasks, plan.errors, plan.finally)]
  const missing = tasks.flatMap(({ name, properties }) => {
    const names = new Set(credentialsIn(properties).map((each) => each.name))
    return [...names]
      .filter((each) => !has(namespace, each))
      .map((each) => {
        const message = `names the credential ${each}, which the namespace ${namespace} does not have`
        return { path: `${name}.properties`, message }
      })
  })
  const elsewhere: readonly (readonly [string, unknown])[] = [
    ['variables', plan.variables],
    ['outputs', plan.outputs],
    ...tasks.map(({ name, runIf, idempotencyKey }) => [name, [runIf, idempotencyKey]] as const),
  ]
  const unopened = elsewhere.flatMap(([path, value]) => {
    return credentialsIn(value).map(({ name }) => {
      return { path, message: `names the credential ${name}, which is opened in the properties of tasks alone` }
    })
  })
  return [...missing, ...unopened]
}
