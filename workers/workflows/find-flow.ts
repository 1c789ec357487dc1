import type { Bus } from '../../bus/connect.ts'
import { load } from '../../bus/load.ts'
import { eventSubject } from '../../bus/subject.ts'
import { flowName } from '../../schemas/workflows/flow-name.ts'

/** Id of the flow that has the name; where there is none it is an id. @throws {BusUnavailable} */
export async function findFlow(bus: Bus, namespace: string, nameOrId: string): Promise<string> {
  const subject = eventSubject('workflows', 'flow-name', `${namespace}/${nameOrId}`)
  const { state } = await load(bus, flowName, { stream: 'EVT_WORKFLOWS', subject })
  return state.flowId ?? nameOrId
}
