import type { KubernetesObject, V1Job } from '@kubernetes/client-node'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { secureSocket } from '../secure-socket.ts'
import { serverPlace, tlsOptions } from '../server-properties.ts'
import { askOver } from './http-over.ts'
import type { KubernetesSettings } from './runner-properties.ts'

export interface Cluster {
  /** Server-side apply. @returns it as the server has it */
  apply(object: KubernetesObject): Promise<KubernetesObject>
  job(namespace: string, name: string): Promise<V1Job>
  /** The ends of the containers of a job, and what they wrote, up to a bound each. */
  logs(namespace: string, name: string, limitBytes: number): Promise<readonly PodLog[]>
  removeJob(namespace: string, name: string): Promise<void>
}

export interface PodLog {
  readonly text: string
  /** Null while it has not ended, or when nobody knows. */
  readonly exitCode: number | null
}

const fieldManager = 'busbar'

/** The API of a cluster, whose every connection is under the egress policy. Source: https://kubernetes.io/docs/reference/using-api */
export async function openCluster(task: TaskRun<unknown>, settings: KubernetesSettings): Promise<Cluster> {
  const client = await import('@kubernetes/client-node')
  const { token, namespace: usual } = settings
  const root = settings.server.replace(/\/+$/, '')
  const configuration = client.createConfiguration({
    baseServer: new client.ServerConfiguration(root, {}),
    httpApi: client.wrapHttpLibrary({
      async send(request) {
        const { status, headers, body } = await exchange(task, settings, request)
        const plain = Object.entries(headers).map(([name, value]) => [name, String(value)] as const)
        const content = {
          text: async () => body.toString('utf8'),
          binary: async () => body,
          stream: () => new Blob([new Uint8Array(body)]).stream(),
        }
        return new client.ResponseContext(status, Object.fromEntries(plain), content)
      },
    }),
    authMethods: {
      default: {
        getName: () => 'token',
        applySecurityAuthentication: async (context) => {
          if (token !== undefined) context.setHeaderParam('Authorization', `Bearer ${token}`)
        },
      },
    },
  })
  class Objects extends client.KubernetesObjectApi {
    constructor() {
      super(configuration)
      this.defaultNamespace = usual
    }
  }
  const objects = new Objects()
  const batch = new client.BatchV1Api(configuration)
  const core = new client.CoreV1Api(configuration)
  const asking = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      task.signal.throwIfAborted()
      throw clusterFailure(error)
    }
  }
  return {
    apply: (object) =>
      asking(objects.patch(object, undefined, undefined, fieldManager, true, client.PatchStrategy.ServerSideApply)),
    job: (namespace, name) => asking(batch.readNamespacedJob({ namespace, name })),
    async logs(namespace, name, limitBytes) {
      const { items } = await asking(core.listNamespacedPod({ namespace, labelSelector: `job-name=${name}` }))
      return await Promise.all(
        items.slice(0, 20).map(async ({ metadata, status }) => {
          const pod = { namespace, name: metadata?.name ?? '', limitBytes }
          const exitCode = status?.containerStatuses?.[0]?.state?.terminated?.exitCode ?? null
          return { text: await asking(core.readNamespacedPodLog(pod)), exitCode }
        }),
      )
    },
    async removeJob(namespace, name) {
      await asking(batch.deleteNamespacedJob({ namespace, name, propagationPolicy: 'Background' }))
    },
  }
}

interface Asked {
  getUrl(): string
  getHttpMethod(): { toString(): string }
  getHeaders(): Readonly<Record<string, string>>
  getBody(): unknown
}

const answerMs = 30_000

async function exchange({ services, signal }: TaskRun<unknown>, { server, tls }: KubernetesSettings, request: Asked) {
  const { host, port, scheme } = serverPlace({ url: server }, { http: 80, https: 443 })
  const late = AbortSignal.timeout(answerMs)
  const either = AbortSignal.any([signal, late])
  try {
    const plain = await services.net.connect({ host, port, signal: either })
    const options = { ...tlsOptions(tls ?? {}, host), ALPNProtocols: ['http/1.1'] }
    const socket = scheme === 'https' ? await secureSocket(plain, options) : plain
    const { pathname, search, host: named } = new URL(request.getUrl())
    const body = request.getBody()
    return await askOver(
      socket,
      {
        method: request.getHttpMethod().toString(),
        path: `${pathname}${search}`,
        headers: { ...request.getHeaders(), host: named },
        ...(body !== undefined && { body: String(body) }),
      },
      { signal: either },
    )
  } catch (error) {
    if (late.aborted && !signal.aborted)
      throw new TaskFailure('timeout', `The cluster does not answer within ${answerMs} ms`, error)
    throw error
  }
}

/** Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status */
function clusterFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { code, body, message } = error as { code?: unknown; body?: unknown; message?: string }
  if (typeof code !== 'number') return new TaskFailure('refused', String(message ?? error), error)
  const passes = code === 408 || code === 429 || code >= 500
  return new TaskFailure(passes ? 'unavailable' : 'refused', `The cluster answered ${code}: ${messageIn(body)}`, error)
}

function messageIn(body: unknown): string {
  try {
    const told = (typeof body === 'string' ? JSON.parse(body) : body) as { message?: unknown }
    return String(told.message ?? 'no reason given').slice(0, 500)
  } catch {
    return 'no reason given'
  }
}
