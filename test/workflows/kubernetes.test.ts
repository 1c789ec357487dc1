import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { environment } from '../../schemas/config/environment.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { testKubernetes } from '../support/kubernetes-wire.ts'
import { failure, openSockets } from './call-plugin.ts'
import { runPlugin as run } from './run-plugin.ts'

t.setTimeout(60_000)

const token = 'eyJ.token'
const tls = selfSignedCertificate()
const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'shop' }, data: { open: 'yes' } }
const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } }
const job = (name: string) => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { name, namespace: 'other' },
  spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'busybox' }] } } },
})

t.test('Kubernetes', async (t) => {
  const cluster = await testKubernetes(t, tls, token)
  const given = { server: cluster.url, token, tls: { ca: tls.certificate }, namespace: 'shop' }
  const inCluster = (
    properties: Record<string, unknown>,
    more: Record<string, unknown> = {},
    signal?: AbortSignal,
    egress = {},
  ) =>
    run(
      'script.shell',
      { runner: 'kubernetes', kubernetes: { ...given, ...more }, ...properties },
      { scripts: false, ...egress },
      signal,
    )

  t.test('manifests are applied on the server, as objects or as YAML', async (t) => {
    const { objects } = await inCluster({}, { manifests: [namespace, configMap] })
    t.match(objects, [
      { kind: 'Namespace', name: 'shop', namespace: null, uid: /^uid/ },
      { kind: 'ConfigMap', name: 'shop', namespace: 'shop' },
    ])
    t.match(cluster.objects.get('/api/v1/namespaces/shop/configmaps/shop'), { data: { open: 'yes' } })
    const yaml =
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two, namespace: b}\n---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: three}\n'
    t.match((await inCluster({}, { manifests: yaml })).objects, { length: 2 })
    t.ok(cluster.objects.has('/api/v1/namespaces/b/configmaps/two'))
  })
  t.test('a job among them is waited for, and its log read', async (t) => {
    cluster.job = { exitCode: 0, log: 'one\n{"rows":7}\n' }
    const ended = await inCluster({}, { manifests: [job('count')] })
    t.match(ended, { exitCode: 0, stdout: 'one\n{"rows":7}\n', outputs: { rows: 7 }, log: [{ message: 'one' }, {}] })
    t.ok(cluster.objects.has('/apis/batch/v1/namespaces/other/jobs/count'), 'it stays')
    cluster.job = null
    t.match(await inCluster({}, { manifests: [job('later')], wait: false }), { exitCode: 0, stdout: '' })
    cluster.job = { exitCode: 4, log: 'no such table\n' }
    await t.rejects(inCluster({}, { manifests: [job('bad')] }), {
      kind: 'refused',
      message: /ended with 4: no such table/,
    })
  })
  t.test('a script runs as a job of its own, which is taken away', async (t) => {
    cluster.job = { exitCode: 0, log: 'hello\n' }
    cluster.asked.length = 0
    let applied: unknown
    const { set } = cluster.objects
    cluster.objects.set = (path, object) => {
      if (path.includes('/jobs/busbar-')) applied = object
      return set.call(cluster.objects, path, object)
    }
    t.match(await inCluster({ script: 'echo hello', args: ['a'], env: { A: 'b' } }), { stdout: 'hello\n', objects: [] })
    t.match(applied, {
      metadata: { namespace: 'shop', name: /^busbar-[0-9a-f]{32}$/ },
      spec: {
        backoffLimit: 0,
        template: {
          spec: {
            restartPolicy: 'Never',
            automountServiceAccountToken: false,
            containers: [
              {
                image: 'alpine:3',
                command: ['sh', '-e', '-c', 'echo hello', 'sh'],
                args: ['a'],
                resources: { limits: { memory: '512Mi' } },
                securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
              },
            ],
          },
        },
      },
    })
    t.match(cluster.asked.at(-1), /^DELETE \/apis\/batch\/v1\/namespaces\/shop\/jobs\/busbar-/)
    cluster.objects.set = set
  })
  t.test('one that an attempt before has left is gone on with, unless it has failed', async (t) => {
    const path = `/apis/batch/v1/namespaces/shop/jobs/busbar-${createHash('sha256').update('trial/task').digest('hex').slice(0, 32)}`
    for (const [exitCode, removals] of [
      [0, 1],
      [1, 2],
    ] as const) {
      cluster.job = { exitCode, log: 'told\n' }
      cluster.asked.length = 0
      cluster.objects.set(path, { ...job('left'), metadata: { name: 'left', namespace: 'shop' } })
      cluster.asked.push(`GET ${path}`)
      await inCluster({ script: 'x', exitCodes: [exitCode] })
      t.equal(cluster.asked.filter((each) => each === `DELETE ${path}`).length, removals)
    }
  })
  t.test('a cancelled one is taken away too', async (t) => {
    cluster.job = null
    cluster.asked.length = 0
    const before = openSockets()
    const stopping = new AbortController()
    const running = inCluster({ command: ['sleep', '1000'], image: 'busybox' }, {}, stopping.signal)
    while (!cluster.asked.some((each) => each.startsWith('GET') && each.includes('/jobs/busbar-'))) await delay(5)
    stopping.abort(new Error('cancelled'))
    await t.rejects(running, /cancelled/)
    t.match(cluster.asked.at(-1), /^DELETE/)
    while (openSockets() > before) await delay(5)
  })
  t.test('what the cluster refuses, and what is no manifest', async (t) => {
    const refused: readonly [Record<string, unknown>, Record<string, unknown>, RegExp][] = [
      [{}, { token: 'wrong', manifests: [configMap] }, /401: Unauthorized/],
      [{}, { manifests: [{ ...configMap, metadata: { name: 'Bad' } }] }, /422: ConfigMap "Bad" is invalid/],
      [{}, { manifests: [{ ...configMap, kind: 'Unheard' }] }, /Unheard/],
      [{}, { manifests: [{ kind: 'ConfigMap' }] }, /manifests\.0 needs apiVersion/],
      [{}, { manifests: 'a: [' }, /is no YAML/],
      [{}, {}, /manifests is needed/],
      [{ script: 'x', stdin: 'y' }, {}, /is given none/],
      [{ script: 'x' }, { tls: {} }, /TLS is not possible/],
    ]
    for (const [properties, more, message] of refused) {
      await t.rejects(inCluster(properties, more), { kind: 'refused', message }, String(message))
    }
    await t.rejects(run('script.shell', { runner: 'kubernetes', script: 'x' }), {
      message: /properties\.kubernetes is needed/,
    })
    await t.rejects(inCluster({ script: 'x' }, { server: 'https://127.0.0.1:1' }), failure('unavailable'))
  })
})

// A cluster's API server that somebody has started, with an admin's token: nothing runs there, so that jobs are not waited for.
const { KUBE_APISERVER: server, KUBE_TOKEN: admin } = environment()
t.test('a real API server', { skip: server === undefined && 'KUBE_APISERVER and KUBE_TOKEN name none' }, async (t) => {
  const kubernetes = { server, token: admin, tls: { verify: false }, wait: false, namespace: 'busbar-test' }
  const names = { ...namespace, metadata: { name: 'busbar-test' } }
  const apply = (manifests: unknown) =>
    run('script.shell', { runner: 'kubernetes', kubernetes: { ...kubernetes, manifests } })
  t.match((await apply([names, configMap, { ...job('count'), metadata: { name: 'count' } }])).objects, [
    { kind: 'Namespace', uid: /-/ },
    { kind: 'ConfigMap', namespace: 'busbar-test', uid: /-/ },
    { kind: 'Job', namespace: 'busbar-test', uid: /-/ },
  ])
  await t.rejects(apply([{ ...configMap, data: { open: 1 } }]), { message: /cluster answered [45].*string/ })
  const stopping = new AbortController()
  setTimeout(() => stopping.abort(new Error('cancelled')), 1_500)
  const running = run('script.shell', { runner: 'kubernetes', script: 'x', kubernetes }, {}, stopping.signal)
  await t.rejects(running, /cancelled/)
})
