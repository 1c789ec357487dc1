import type { Bus } from '../../bus/connect.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import { findOperation, type InstanceState, instance } from '../../schemas/provisioning/instance.ts'
import { isUnderWay } from '../../schemas/provisioning/operation.ts'
import type { InstanceList } from './service.ts'

type Listener = Parameters<InstanceList['onChange']>[0]

/** How long an answer waits until the view holds what was just written. */
const passedMs = 2_000

/** @throws {BusUnavailable} when it cannot begin */
export async function openInstanceList(
  bus: Bus,
  onObservation: (observation: FollowObservation) => void,
): Promise<InstanceList & { close(): Promise<void> }> {
  const states = new Map<string, { readonly state: InstanceState; readonly sequence: number }>()
  const listeners = new Set<Listener>()
  const follower = await follow(bus, {
    stream: 'EVT_PROVISIONING',
    subject: 'evt.provisioning.instance',
    aggregate: instance,
    onState(projectName, state, sequence) {
      if ((states.get(projectName)?.sequence ?? 0) > sequence) return
      states.set(projectName, { state, sequence })
      for (const listener of [...listeners]) listener(projectName, state)
    },
    onObservation,
  })
  const onChange = (listener: Listener) => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }
  /** Resolves when the condition holds, or the time is over. */
  const until = (holds: () => boolean, ms: number, gone?: AbortSignal) =>
    new Promise<void>((resolve) => {
      if (holds() || gone?.aborted || ms <= 0) return resolve()
      const end = () => {
        clearTimeout(timer)
        stop()
        gone?.removeEventListener('abort', end)
        resolve()
      }
      const stop = onChange(() => holds() && end())
      const timer = setTimeout(end, ms)
      gone?.addEventListener('abort', end)
    })
  const get = (projectName: string) => states.get(projectName)?.state ?? instance.initial
  return {
    all: () => [...states].map(([projectName, { state }]) => [projectName, state] as const),
    get,
    passed: (projectName, sequence) => until(() => (states.get(projectName)?.sequence ?? 0) >= sequence, passedMs),
    async settled(projectName, operationId, ms, gone) {
      const found = () => findOperation(get(projectName), operationId)
      await until(
        () => {
          const operation = found()
          return operation !== null && !isUnderWay(operation)
        },
        ms,
        gone,
      )
      return found()
    },
    onChange,
    close: () => follower.close(),
  }
}
