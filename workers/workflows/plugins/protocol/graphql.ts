import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { callJson } from '../http-json.ts'
import { given } from '../saas/api-plugin.ts'

const maxTold = 500

/** Source: https://graphql.github.io/graphql-over-http/draft/ */
export const graphql = definePlugin({
  id: 'graphql.query',
  name: 'GraphQL',
  category: 'Protocol',
  description: 'Sends a query or mutation to a GraphQL endpoint: that of this platform, or any other.',
  effect: 'idempotent',
  input: Type.Object(
    {
      url: Type.String({ description: 'The endpoint', examples: ['http://localhost:10000/graphql'] }),
      query: Type.String({ description: 'The document', examples: ['{ publicFilm(limit: 1) { title } }'] }),
      variables: Type.Record(Type.String(), Type.Unknown(), {
        description: 'Its variables',
        default: {},
        examples: [{ id: 1 }],
      }),
      operationName: Type.Optional(Type.String({ description: 'Which of several operations', examples: ['Films'] })),
      headers: Type.Record(Type.String(), Type.String(), {
        description: 'Headers',
        default: {},
        examples: [{ Authorization: 'Bearer ${TOKEN}' }],
      }),
      failOnErrors: Type.Boolean({
        description: 'Whether errors in the answer fail the task',
        default: true,
        examples: [false],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    data: Type.Unknown({ description: 'What was asked for', examples: [{ publicFilm: [] }] }),
    errors: Type.Array(Type.Unknown(), { description: 'What went wrong', examples: [[]] }),
  }),
  example: `name: films
tasks:
  - name: ask
    type: graphql.query
    properties:
      url: http://localhost:10000/graphql
      query: '{ __typename }'
`,
  async run(task) {
    const { url, query, variables, operationName, headers, failOnErrors } = task.input
    const { body } = await callJson(task, {
      service: 'The GraphQL endpoint',
      url,
      method: 'POST',
      headers: { 'Idempotency-Key': task.idempotencyKey, ...headers },
      body: given({ query, variables, operationName }),
    })
    const { data = null, errors = [] } = (body ?? {}) as { data?: unknown; errors?: readonly unknown[] }
    if (errors.length > 0 && failOnErrors) {
      const told = errors.map((error) => (error as { message?: string }).message ?? JSON.stringify(error)).join('; ')
      throw new TaskFailure('refused', `The GraphQL endpoint answered with errors: ${told.slice(0, maxTold)}`)
    }
    return { data, errors: [...errors] }
  },
})
