import { defineApiPlugin, given, list, only, record, secret, text, whole } from './api-plugin.ts'

/** Source: https://developers.notion.com/reference */
export const notion = defineApiPlugin({
  id: 'saas.notion',
  name: 'Notion',
  description: 'Pages and databases of Notion.',
  needs: 'An integration that the pages are shared with (https://developers.notion.com/reference)',
  baseUrl: 'https://api.notion.com',
  baseUrlExample: 'https://api.notion.com',
  credentials: { token: secret('Secret of the integration', 'NOTION_TOKEN') },
  headers: ({ token }) => ({ Authorization: `Bearer ${token}`, 'Notion-Version': '2022-06-28' }),
  fields: {
    pageId: text('Id of the page', '59833787-2cf9-4fdf-8782-e53db20768a5'),
    databaseId: text('Id of the database', 'd9824bdc-8445-4327-be8b-5b47500af6ce'),
    blockId: text('Id of the block or page', '9bc30ad4-9373-46a5-84ab-0a7845ee52e6'),
    properties: record('Properties of the page', { Name: { title: [{ text: { content: 'Hello' } }] } }),
    children: list('Blocks', [{ object: 'block', type: 'paragraph', paragraph: { rich_text: [] } }]),
    filter: record('What a page must have', { property: 'Done', checkbox: { equals: true } }),
    sorts: list('In which order', [{ property: 'Name', direction: 'ascending' }]),
    page_size: whole('Pages at a time, up to 100', 100),
    start_cursor: text('From the answer before', 'fe2cc560'),
  },
  operations: {
    createPage: {
      title: 'Creates a page in a database, or below a page',
      method: 'POST',
      path: '/v1/pages',
      required: ['properties'],
      body: ({ databaseId, pageId, properties, children }) =>
        given({
          parent: databaseId === undefined ? { page_id: pageId } : { database_id: databaseId },
          properties,
          children,
        }),
    },
    getPage: { title: 'Reads a page', method: 'GET', path: '/v1/pages/{pageId}', required: ['pageId'] },
    updatePage: {
      title: 'Changes the properties of a page',
      method: 'PATCH',
      path: '/v1/pages/{pageId}',
      required: ['pageId', 'properties'],
      body: (input) => only(input, ['properties']),
    },
    queryDatabase: {
      title: 'Finds pages of a database',
      method: 'POST',
      path: '/v1/databases/{databaseId}/query',
      required: ['databaseId'],
      body: (input) => only(input, ['filter', 'sorts', 'page_size', 'start_cursor']),
    },
    appendBlocks: {
      title: 'Adds blocks to a page or block',
      method: 'PATCH',
      path: '/v1/blocks/{blockId}/children',
      required: ['blockId', 'children'],
      body: (input) => only(input, ['children']),
    },
  },
  example: `
databaseId: d9824bdc-8445-4327-be8b-5b47500af6ce
properties:
  Name: { title: [{ text: { content: Hello } }] }
token: \${NOTION_TOKEN}
`,
})
