import type { Client } from 'pg'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { facts } from '../../../schemas/provisioning/instance-facts.ts'
import type { Operation } from '../../../schemas/provisioning/operation.ts'
import type { Plan, Step, StepWork } from '../driver.ts'
import { CareFailure } from './care-failure.ts'
import { catchUp } from './catch-up.ts'
import { logIn } from './create.ts'
import { rotatePassword } from './credentials/rotate.ts'
import { newPassword } from './credentials/scram.ts'
import { startPrimary, startStandby } from './members.ts'
import { applyParameters, checkParameters, restartWithParameters } from './parameters/postgres-parameters.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance, passwordContext } from './postgres-instance.ts'
import type { PostgresNode } from './postgres-node.ts'
import { waitUntil, withSession } from './postgres-session.ts'
import { shownSnapshot } from './shown-snapshot.ts'
import { exportSnapshot } from './snapshots/postgres-snapshot.ts'
import { listSnapshots, requireSnapshotRoom } from './snapshots/snapshot-record.ts'

/** The new password, sealed and recorded before anybody is told of it. */
export function prepareRotation(place: LocalPlace): Step {
  return {
    name: 'PREPARE',
    async run({ instance }) {
      const { superuser, master, version } = instance.credentials!
      const pending = place.keys.seal(newPassword(), `${passwordContext(instance.uid, 'master')}${version + 1}`)
      return { facts: [facts.credentials.of({ superuser, master, pending, version, at: instance.credentials!.at })] }
    },
  }
}

/** A new password: sealed and recorded before the server has it, in force once it has opened the door. */
export function rotatePlan(place: LocalPlace): Plan {
  const set: Step = {
    name: 'SET',
    async run({ instance }) {
      const opened = await openPostgres(place, instance)
      const { masterUsername: user, credentials } = instance
      await rotatePassword(opened.primary(), { user, password: opened.password('pending') })
      await logIn(opened, instance, 'pending')
      const { superuser, pending, version } = credentials!
      const at = Date.now()
      return { facts: [facts.credentials.of({ superuser, master: pending!, pending: null, version: version + 1, at })] }
    },
  }
  const back: Step = {
    name: 'SET_BACK',
    async run({ instance }) {
      const opened = await openPostgres(place, instance)
      await rotatePassword(opened.primary(), { user: instance.masterUsername, password: opened.password('master') })
      const { superuser, master, version, at } = instance.credentials!
      return { facts: [facts.credentials.of({ superuser, master, pending: null, version, at })] }
    },
  }
  return { steps: [prepareRotation(place), set], undo: [back] }
}

/** Parameters on every server, with a rolling restart where one is needed; all of them, or none. */
export function parametersPlan(place: LocalPlace): Plan {
  const wanted = ({ operation }: Pick<StepWork, 'operation'>) => operation.request.parameters as ParameterChanges
  const apply: Step = {
    name: 'APPLY',
    async run(work) {
      await setParameters(await openPostgres(place, work.instance), wanted(work), work.signal)
      return undefined
    },
  }
  const record: Step = {
    name: 'RECORD',
    async run(work) {
      const { instance, operation } = work
      const own = { ...parametersFact(instance, operation), pendingRestart: [] }
      return { facts: [facts.settings.of({ ...own, by: operation.by, at: Date.now() })] }
    },
  }
  const back: Step = {
    name: 'APPLY_BACK',
    async run(work) {
      const { parameters } = work.instance
      const before = Object.fromEntries(Object.keys(wanted(work)).map((name) => [name, parameters[name] ?? null]))
      await setParameters(await openPostgres(place, work.instance), before, work.signal)
      return undefined
    },
  }
  return { steps: [apply, record], undo: [back] }
}

/** Null: back to what the server has by itself. */
export type ParameterChanges = Readonly<Record<string, string | null>>

/** What is recorded of an instance once they are in force. */
function changedParameters(before: Readonly<Record<string, string>>, changes: ParameterChanges) {
  const all = Object.entries<string | null>({ ...before, ...changes })
  return Object.fromEntries(all.filter((entry): entry is [string, string] => entry[1] !== null))
}

/** What a change of parameters is recorded with. */
export function parametersFact(instance: Instance, operation: Operation) {
  const { parameters: wanted, followed } = operation.request as {
    readonly parameters: ParameterChanges
    readonly followed?: Instance['followed']
  }
  return { parameters: changedParameters(instance.parameters, wanted), ...(followed !== undefined && { followed }) }
}

/** What was asked for when the instance was. */
export function firstParameters(place: LocalPlace): Step {
  return {
    name: 'PARAMETERS',
    async run({ instance, signal }) {
      if (Object.keys(instance.parameters).length === 0) return undefined
      await setParameters(await openPostgres(place, instance), instance.parameters, signal)
      return undefined
    },
  }
}

/**
 * Limits are raised on the standbys first, and lowered there last: they must never be below their primary's.
 * @throws {CareFailure}
 */
export async function setParameters(
  opened: PostgresInstance,
  changes: ParameterChanges,
  signal: AbortSignal,
): Promise<void> {
  const primary = opened.primary()
  const { raised, lowered, values } = await checkParameters(primary, changedParameters({}, changes))
  const standbys = opened.standbys.map((member) => opened.nodeOf(member))
  const apply = async (node: PostgresNode, some: ParameterChanges, before = async () => {}) => {
    const { pendingRestart } = await applyParameters(node, some)
    if (pendingRestart.length === 0) return
    await before()
    await restartNode(opened, node, signal)
  }
  if (raised.length > 0) {
    const higher = lowered.length === 0 ? changes : Object.fromEntries(raised.map((name) => [name, values[name]!]))
    for (const node of standbys) await apply(node, higher)
  }
  await apply(primary, changes)
  if (raised.length > 0 && lowered.length === 0) return
  for (const node of standbys) await apply(node, changes, () => catchUp(primary, node, signal))
}

/** @throws {CareFailure} when the server did not start with its parameters, and runs with the last good ones */
async function restartNode(opened: PostgresInstance, node: PostgresNode, signal: AbortSignal): Promise<void> {
  const primary = opened.primary()
  const { applied, reason } = await restartWithParameters(opened.control, node)
  if (node.dataFolder === primary.dataFolder) await startPrimary(opened, node, opened.standbys.length, signal)
  else await startStandby(opened, primary.port, node, signal)
  if (!applied) throw new CareFailure('failed', `The server does not start with the parameters: ${reason}`)
}

/** Every server anew, the standbys first. */
export function restartPlan(place: LocalPlace): Plan {
  const restart: Step = {
    name: 'RESTART',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      for (const node of [...opened.standbys.map((each) => opened.nodeOf(each)), opened.primary()]) {
        await restartNode(opened, node, signal)
      }
      return { facts: [facts.settings.of({ pendingRestart: [], by: operation.by, at: Date.now() })] }
    },
  }
  return { steps: [restart], undo: [] }
}

/** A quota: more of it is there at once, and an instance that was full may be written to again. */
export function resizePlan(place: LocalPlace): Plan {
  const resize: Step = {
    name: 'RESIZE',
    async run({ instance, operation }) {
      const storageBytes = Number(operation.request.storageBytes)
      await allowWrites(await openPostgres(place, instance), true)
      return { facts: [facts.settings.of({ storageBytes, by: operation.by, at: Date.now() })] }
    },
  }
  return { steps: [resize], undo: [] }
}

/** Set while an instance is full. */
export const readOnlyParameter = 'default_transaction_read_only'
const reloadMs = 5_000

/** Whether clients may write; those that ask for it may still make room. */
export async function allowWrites(opened: PostgresInstance, allowed: boolean): Promise<void> {
  const session = <T>(work: (client: Client) => Promise<T>) =>
    withSession(opened.primary(), work, { database: 'postgres' })
  const isSo = () =>
    session(async (client) => {
      const { rows } = await client.query<{ now: string }>(
        `select reset_val as now from pg_settings where name = '${readOnlyParameter}'`,
      )
      return (rows[0]?.now === 'on') === !allowed
    })
  if (await isSo()) return
  await session(async (client) => {
    await client.query('set default_transaction_read_only = off')
    await client.query(
      allowed ? `alter system reset ${readOnlyParameter}` : `alter system set ${readOnlyParameter} = on`,
    )
    await client.query('select pg_reload_conf()')
  })
  // The next session is told by a process that has still to read it.
  await waitUntil(isSo, { timeoutMs: reloadMs, message: 'The server does not take over its settings.' })
}

export function snapshotPlan(place: LocalPlace): Plan {
  const dump: Step = {
    name: 'EXPORT',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      const { snapshots: snapshotsFolder } = opened.folders
      const id = String(operation.request.snapshotId)
      const done = listSnapshots(snapshotsFolder).find((each) => each.id === id)
      if (done === undefined) requireSnapshotRoom(snapshotsFolder)
      const request = operation.request as SnapshotRequest
      const { projectName: projectId } = instance
      const made =
        done ?? (await exportSnapshot(opened.primary(), { ...request, projectId, snapshotsFolder, id, signal }))
      return { data: { result: { ...shownSnapshot(made) } } }
    },
  }
  return { steps: [dump], undo: [] }
}

type SnapshotRequest = Pick<Parameters<typeof exportSnapshot>[1], 'format' | 'schemaOnly' | 'tables' | 'excludeTables'>
