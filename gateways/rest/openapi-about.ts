import type { Catalog } from '../data/catalog.ts'
import { failureResponses, headerReferences } from './openapi-components.ts'
import { tableListing } from './openapi-describe.ts'
import { operatorTable } from './openapi-filters.ts'
import type { Json } from './openapi-types.ts'
import { withAuthentication } from './openapi-writes.ts'

/** The paths that are the same whatever the tables. */
export function fixedPaths(
  catalog: Catalog,
  { schema, jwt }: { readonly schema: string; readonly jwt: boolean },
): Json {
  const failures = failureResponses(withAuthentication(['Unavailable'], jwt))
  const document = (type: string, format: string, example: unknown): Json => ({
    get: {
      operationId: `openapi_${format}`,
      tags: ['about'],
      summary: `This document as ${format.toUpperCase()}`,
      responses: {
        200: {
          description: 'The document.',
          headers: headerReferences(['ETag']),
          content: { [type]: { schema: { type: format === 'json' ? 'object' : 'string' }, example } },
        },
        ...failures,
      },
    },
  })
  const { tables } = tableListing(catalog, schema) as { readonly tables: readonly string[] }
  return {
    '/': {
      get: {
        operationId: 'tables',
        tags: ['about'],
        summary: 'Names of the tables',
        responses: {
          200: {
            description: 'The names.',
            headers: headerReferences(['ETag']),
            content: {
              'application/json': {
                schema: { $ref: '#/components/schemas/TableList' },
                example: { tables: tables.slice(0, 3) },
              },
            },
          },
          ...failures,
        },
      },
    },
    '/types/{name}': {
      parameters: [
        {
          name: 'name',
          in: 'path',
          required: true,
          description: 'Its name.',
          schema: { type: 'string' },
          example: 'mood',
        },
      ],
      get: {
        operationId: 'type',
        tags: ['about'],
        summary: 'An enum, domain or composite type',
        responses: {
          200: {
            description: 'The values of an enum, the fields of a composite type, the base of a domain.',
            headers: headerReferences(['ETag']),
            content: {
              'application/json': {
                schema: { $ref: '#/components/schemas/TypeDefinition' },
                example: {
                  name: 'mood',
                  kind: 'enum',
                  comment: null,
                  values: ['sad', 'happy'],
                  fields: null,
                  base: null,
                },
              },
            },
          },
          ...failureResponses(withAuthentication(['NotFound', 'Unavailable'], jwt)),
        },
      },
    },
    '/openapi.json': document('application/json', 'json', { openapi: '3.1.0' }),
    '/openapi.yaml': document('application/yaml', 'yaml', 'openapi: 3.1.0\n'),
  }
}

/** What the document begins with. */
export function introduction({ schema, changes }: { readonly schema: string; readonly changes: boolean }): string {
  return [
    `Tables and functions of the PostgreSQL schema \`${schema}\`, described as they are now.`,
    '## Filters',
    'Any column is a query parameter: `?<column>=<operator>.<value>`; `not.` before the operator negates, several filters must all hold, `or=(…)` and `and=(…)` group. A value without an operator is compared as it is. Values with commas, brackets or quotes go in double quotes inside lists and groups.',
    `<details><summary>All operators</summary>\n\n${operatorTable()}\n\n</details>`,
    ...(changes
      ? [
          '## Changes',
          'Every table has a stream of its changes: `/<table>/changes` as server-sent events, `ws://<host>/ws/<table>/changes` over WebSocket.',
        ]
      : []),
  ].join('\n\n')
}
