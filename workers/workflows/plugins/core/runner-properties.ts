import { type Static, Type } from 'typebox'
import { TlsSettings } from '../server-properties.ts'

const KubernetesSettings = Type.Object(
  {
    server: Type.String({
      description: 'Address of the API server',
      pattern: '^https?://',
      examples: ['https://10.0.0.1:6443'],
    }),
    token: Type.Optional(Type.String({ description: 'Token of a service account', examples: ['${CLUSTER.token}'] })),
    tls: Type.Optional(TlsSettings),
    namespace: Type.String({
      description: 'Where what names no namespace of its own belongs',
      pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$',
      default: 'default',
      examples: ['shop'],
    }),
    manifests: Type.Union(
      [
        Type.String({ maxLength: 1_000_000 }),
        Type.Array(Type.Record(Type.String(), Type.Unknown()), { maxItems: 500 }),
      ],
      {
        description:
          'What is applied first, as YAML or as objects: on the server, by the field manager `busbar`, which takes fields over from others. Jobs among it are waited for',
        default: [],
        examples: [[{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'shop' }, data: { open: 'yes' } }]],
      },
    ),
    wait: Type.Boolean({
      description: 'Whether jobs among the manifests are waited for, and their logs read',
      default: true,
      examples: [false],
    }),
  },
  {
    description: 'Of the runner kubernetes: the cluster',
    additionalProperties: false,
    examples: [{ server: 'https://10.0.0.1:6443', token: '${CLUSTER.token}', namespace: 'shop' }],
  },
)

/** Where scripts of every language can run. */
export const runnerProperties = {
  runner: Type.Enum(['process', 'container', 'kubernetes'], {
    description:
      'Where it runs: on the machine of the worker, there in a container of an image, or as a job of a Kubernetes cluster, which is given no files and no standard input',
    default: 'process',
    examples: ['container'],
  }),
  image: Type.Optional(
    Type.String({
      description: 'Of the runners container and kubernetes: the image; default: one of the language',
      pattern: '^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$',
      examples: ['alpine:3'],
    }),
  ),
  kubernetes: Type.Optional(KubernetesSettings),
}

export type KubernetesSettings = Static<typeof KubernetesSettings>
