import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Owner } from './servers.ts'

type Json = Record<string, unknown>
interface Named {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

export interface TestKubernetes {
  readonly url: string
  /** What was applied, by its path. */
  readonly objects: Map<string, Named & Json>
  /** Each request, as `METHOD path`. */
  readonly asked: string[]
  /** How jobs end. `null`: they do not. */
  job: { readonly exitCode: number; readonly log: string } | null
}

const resources: Readonly<Record<string, readonly Json[]>> = {
  '/api/v1': [
    { name: 'configmaps', kind: 'ConfigMap', namespaced: true },
    { name: 'namespaces', kind: 'Namespace', namespaced: false },
    { name: 'pods', kind: 'Pod', namespaced: true },
  ],
  '/apis/batch/v1': [{ name: 'jobs', kind: 'Job', namespaced: true }],
}

/** The part of an API server that a task uses; it checks how it is asked. Source: https://kubernetes.io/docs/reference/using-api */
export async function testKubernetes(
  t: Owner,
  tls: { readonly key: string; readonly certificate: string },
  token: string,
): Promise<TestKubernetes> {
  const server = createServer({ key: tls.key, cert: tls.certificate }, async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    answer(cluster, request, Buffer.concat(parts).toString(), response, token)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const cluster: TestKubernetes = {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    objects: new Map(),
    asked: [],
    job: { exitCode: 0, log: '' },
  }
  return cluster
}

function answer(
  cluster: TestKubernetes,
  request: IncomingMessage,
  body: string,
  response: ServerResponse,
  token: string,
): ServerResponse {
  const { pathname, searchParams } = new URL(request.url!, cluster.url)
  const { method = '' } = request
  cluster.asked.push(`${method} ${pathname}`)
  if (request.headers.authorization !== `Bearer ${token}`) return fail(response, 401, 'Unauthorized')
  const found = resources[pathname]
  if (method === 'GET' && found !== undefined) return json(response, 200, { kind: 'APIResourceList', resources: found })
  if (method === 'PATCH') return apply(cluster, request, { pathname, searchParams, body }, response)
  const [, namespace, kind, name, part] =
    /^\/api(?:s\/batch)?\/v1\/namespaces\/([^/]+)\/(pods|jobs)(?:\/([^/]+)(?:\/(log))?)?$/.exec(pathname) ?? []
  if (kind === 'pods' && name === undefined)
    return json(response, 200, { kind: 'PodList', apiVersion: 'v1', items: podsOf(cluster, searchParams) })
  if (kind === 'pods' && part === 'log') {
    return response
      .writeHead(200, { 'Content-Type': 'text/plain' })
      .end(cluster.job?.log.slice(0, Number(searchParams.get('limitBytes'))))
  }
  const job = cluster.objects.get(pathname)
  if (kind !== 'jobs' || job === undefined) return fail(response, 404, `${namespace}/${name} not found`)
  if (method === 'DELETE') {
    cluster.objects.delete(pathname)
    return json(response, 200, { kind: 'Status', apiVersion: 'v1', status: 'Success' })
  }
  const type = cluster.job?.exitCode === 0 ? 'Complete' : 'Failed'
  // The first look is too early.
  const looks = cluster.asked.filter((each) => each === `GET ${pathname}`).length
  const conditions = cluster.job === null || looks < 2 ? [] : [{ type, status: 'True' }]
  return json(response, 200, { ...job, status: { conditions } })
}

function apply(
  cluster: TestKubernetes,
  request: IncomingMessage,
  { pathname, searchParams, body }: { pathname: string; searchParams: URLSearchParams; body: string },
  response: ServerResponse,
): ServerResponse {
  const type = request.headers['content-type'] ?? ''
  if (!type.startsWith('application/apply-patch+yaml')) return fail(response, 415, `no ${type}`)
  if (searchParams.get('fieldManager') !== 'busbar' || searchParams.get('force') !== 'true')
    return fail(response, 400, 'no field manager')
  const object = JSON.parse(body) as Named & Json
  if (object.metadata.name.startsWith('Bad'))
    return fail(response, 422, `ConfigMap "${object.metadata.name}" is invalid`)
  const namespace = /\/namespaces\/([^/]+)\/[^/]+\/[^/]+$/.exec(pathname)?.[1]
  const kept = {
    ...object,
    metadata: { ...object.metadata, ...(namespace !== undefined && { namespace }), uid: `uid-${cluster.objects.size}` },
  }
  cluster.objects.set(pathname, kept)
  return json(response, 201, kept)
}

function podsOf({ job }: TestKubernetes, asked: URLSearchParams): readonly Json[] {
  const name = /^job-name=(.+)$/.exec(asked.get('labelSelector') ?? '')?.[1]
  if (name === undefined || job === null) return []
  const state = { terminated: { exitCode: job.exitCode } }
  return [
    {
      metadata: { name: `${name}-x1` },
      status: { containerStatuses: [{ name: 'task', ready: false, restartCount: 0, image: '', imageID: '', state }] },
    },
  ]
}

function fail(response: ServerResponse, code: number, message: string): ServerResponse {
  return json(response, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', message, code })
}

function json(response: ServerResponse, status: number, body: unknown): ServerResponse {
  return response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}
