import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { KubernetesObject } from '@kubernetes/client-node'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { type Cluster, openCluster } from './kubernetes-client.ts'
import type { KubernetesSettings } from './runner-properties.ts'
import type { ScriptLanguage } from './script-language.ts'
import { maxKeptBytes, ScriptOutputs } from './script-output.ts'
import type { ScriptInput } from './script-properties.ts'
import { variablesOf } from './script-variables.ts'

const removeMs = 700
const pollMs = [250, 500, 1_000, 2_000, 5_000]
const maxObjects = 500
/** A job that nobody takes away any more. */
const keptSeconds = 3_600

interface Job {
  readonly namespace: string
  readonly name: string
}

/**
 * Applies manifests to a cluster, runs a script there as a job, waits for the jobs and reads their logs.
 * @throws {TaskFailure} as the cluster says
 */
export async function runInCluster(task: TaskRun<ScriptInput>, language: ScriptLanguage) {
  const { input, signal } = task
  const { kubernetes } = input
  if (kubernetes === undefined)
    throw new TaskFailure('refused', 'properties.kubernetes is needed for the runner kubernetes')
  checkInput(input)
  const manifests = await objectsIn(kubernetes.manifests)
  const own = isRun(input) ? jobOf(task, language, kubernetes) : null
  if (own === null && manifests.length === 0)
    throw new TaskFailure(
      'refused',
      'properties.script, properties.command or properties.kubernetes.manifests is needed',
    )
  const cluster = await openCluster(task, kubernetes)
  const applied: KubernetesObject[] = []
  for (const object of manifests) applied.push(await cluster.apply(object))
  const jobs = kubernetes.wait ? applied.filter(({ kind }) => kind === 'Job').map(placeOf) : []
  const ownPlace = own === null ? null : { namespace: kubernetes.namespace, name: own.metadata.name }
  try {
    if (own !== null && ownPlace !== null) {
      await withoutFailed(cluster, ownPlace)
      await cluster.apply(own)
    }
    const ended = await ends(cluster, [...jobs, ...(ownPlace === null ? [] : [ownPlace])], task)
    return { ended, objects: applied.map(told) }
  } finally {
    // With another signal: this one may be what has ended the task.
    if (ownPlace !== null) await takeAway({ ...task, signal: AbortSignal.timeout(removeMs) }, kubernetes, ownPlace)
    signal.throwIfAborted()
  }
}

/** One of an attempt before that has failed would be the end of this one too; one that still runs is gone on with. */
async function withoutFailed(cluster: Cluster, { namespace, name }: Job): Promise<void> {
  const before = await cluster.job(namespace, name).catch((error: TaskFailure) => {
    if (error.kind === 'refused') return null
    throw error
  })
  const isFailed = before?.status?.conditions?.some(({ type, status }) => type === 'Failed' && status === 'True')
  if (isFailed === true) await cluster.removeJob(namespace, name)
}

function isRun({ script, command, image }: ScriptInput): boolean {
  return script !== undefined || command !== undefined || image !== undefined
}

function checkInput({ stdin, files, outputFiles }: ScriptInput): void {
  if (stdin === '' && Object.keys(files).length === 0 && outputFiles.length === 0) return
  throw new TaskFailure('refused', 'properties.stdin, files and outputFiles: a job of a cluster is given none')
}

async function takeAway(task: TaskRun<unknown>, settings: KubernetesSettings, { namespace, name }: Job): Promise<void> {
  try {
    await (await openCluster(task, settings)).removeJob(namespace, name)
  } catch {
    // Its time to live takes it away.
  }
}

/** @throws {TaskFailure} `refused` for what is no manifest */
async function objectsIn(given: KubernetesSettings['manifests']): Promise<readonly KubernetesObject[]> {
  const all = typeof given === 'string' ? await fromYaml(given) : given
  if (all.length > maxObjects)
    throw new TaskFailure('refused', `properties.kubernetes.manifests: more than ${maxObjects}`)
  for (const [at, object] of all.entries()) {
    const { apiVersion, kind, metadata } = (object ?? {}) as KubernetesObject
    if (typeof apiVersion === 'string' && typeof kind === 'string' && typeof metadata?.name === 'string') continue
    throw new TaskFailure('refused', `properties.kubernetes.manifests.${at} needs apiVersion, kind and metadata.name`)
  }
  return all as readonly KubernetesObject[]
}

async function fromYaml(text: string): Promise<readonly unknown[]> {
  const { parseAllDocuments } = await import('yaml')
  try {
    const documents = [parseAllDocuments(text)].flat()
    const values = documents.map((each) => {
      const [error] = each.errors
      if (error !== undefined) throw error
      return each.toJS({ maxAliasCount: 100 }) as unknown
    })
    return values.filter((each) => each !== null && each !== undefined)
  } catch (cause) {
    throw new TaskFailure('refused', `properties.kubernetes.manifests is no YAML: ${(cause as Error).message}`, cause)
  }
}

/** The same for every attempt: one that comes after a crash goes on with the job of the one before. */
function jobOf(task: TaskRun<ScriptInput>, { inContainer }: ScriptLanguage, { namespace }: KubernetesSettings) {
  const { image, command, script, args, memoryMb } = task.input
  const [before, after] = inContainer.inline
  const own = script === undefined ? (command ?? []) : [...inContainer.command, ...before, script, ...after]
  const name = `busbar-${createHash('sha256').update(task.idempotencyKey).digest('hex').slice(0, 32)}`
  const { HOME: _home, TMPDIR: _folder, BUSBAR_OUTPUT: _output, ...variables } = variablesOf(task, '/')
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace, labels: { 'app.kubernetes.io/managed-by': 'busbar' } },
    spec: {
      backoffLimit: 0,
      ttlSecondsAfterFinished: keptSeconds,
      template: {
        spec: {
          restartPolicy: 'Never',
          automountServiceAccountToken: false,
          containers: [
            {
              name: 'task',
              image: image ?? inContainer.image,
              ...(own.length > 0 && { command: own }),
              ...(args.length > 0 && { args: [...args] }),
              env: Object.entries(variables).map(([key, value]) => ({ name: key, value })),
              resources: { limits: { memory: `${memoryMb}Mi` } },
              securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
            },
          ],
        },
      },
    },
  }
}

/** Waits for all of them, and reads what they wrote. */
async function ends(cluster: Cluster, jobs: readonly Job[], { signal, log }: TaskRun<ScriptInput>) {
  const outputs = new ScriptOutputs(log)
  let exitCode = 0
  for (const { namespace, name } of jobs) {
    const succeeded = await finished(cluster, { namespace, name }, signal)
    const logs = await cluster.logs(namespace, name, maxKeptBytes)
    for (const { text } of logs) outputs.stdout.add(Buffer.from(text))
    if (!succeeded && exitCode === 0) exitCode = logs.find((each) => (each.exitCode ?? 0) !== 0)?.exitCode ?? 1
  }
  outputs.stdout.end()
  return outputs.ended(exitCode)
}

/** @returns whether it has succeeded. Source: https://kubernetes.io/docs/concepts/workloads/controllers/job */
async function finished(cluster: Cluster, { namespace, name }: Job, signal: AbortSignal): Promise<boolean> {
  for (let polls = 0; ; polls++) {
    const { status } = await cluster.job(namespace, name)
    const ended = status?.conditions?.find(
      (each) => each.status === 'True' && (each.type === 'Complete' || each.type === 'Failed'),
    )
    if (ended !== undefined) return ended.type === 'Complete'
    await delay(pollMs[Math.min(polls, pollMs.length - 1)]!, undefined, { signal })
  }
}

const placeOf = ({ metadata }: KubernetesObject): Job => ({
  namespace: metadata?.namespace ?? 'default',
  name: metadata?.name ?? '',
})

const told = ({ apiVersion, kind, metadata }: KubernetesObject) => ({
  apiVersion,
  kind,
  namespace: metadata?.namespace ?? null,
  name: metadata?.name ?? null,
  uid: metadata?.uid ?? null,
})
