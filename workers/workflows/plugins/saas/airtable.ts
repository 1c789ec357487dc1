import { defineApiPlugin, flag, list, only, secret, text, whole } from './api-plugin.ts'

const table = '/v0/{baseId}/{table}'

/** Source: https://airtable.com/developers/web/api/introduction */
export const airtable = defineApiPlugin({
  id: 'saas.airtable',
  name: 'Airtable',
  description: 'Records of Airtable tables.',
  needs: 'A personal access token (https://airtable.com/developers/web/api/introduction)',
  baseUrl: 'https://api.airtable.com',
  baseUrlExample: 'https://api.airtable.com',
  credentials: { token: secret('Personal access token', 'AIRTABLE_TOKEN') },
  headers: ({ token }) => ({ Authorization: `Bearer ${token}` }),
  fields: {
    baseId: text('Id of the base', 'appAbCdEfGhIjKlMn'),
    table: text('Name or id of the table', 'Customers'),
    recordId: text('Id of the record', 'recAbCdEfGhIjKlMn'),
    records: list('Records, up to 10: `{fields}`, and to change them `{id, fields}`', [{ fields: { Name: 'Ann' } }]),
    typecast: flag('Whether texts are turned into what the column holds'),
    filterByFormula: text('What a record must have', '{Name} = "Ann"'),
    view: text('Name or id of a view', 'Grid view'),
    maxRecords: whole('How many at most', 100),
    pageSize: whole('How many on a page, up to 100', 100),
    offset: text('From the answer before', 'itr23sEjsdfEr3282/rec'),
  },
  operations: {
    listRecords: {
      title: 'Lists records',
      method: 'GET',
      path: table,
      required: ['baseId', 'table'],
      query: {
        filterByFormula: 'filterByFormula',
        view: 'view',
        maxRecords: 'maxRecords',
        pageSize: 'pageSize',
        offset: 'offset',
      },
    },
    getRecord: {
      title: 'Reads a record',
      method: 'GET',
      path: `${table}/{recordId}`,
      required: ['baseId', 'table', 'recordId'],
    },
    createRecords: {
      title: 'Creates records',
      method: 'POST',
      path: table,
      required: ['baseId', 'table', 'records'],
      body: (input) => only(input, ['records', 'typecast']),
    },
    updateRecords: {
      title: 'Changes records',
      method: 'PATCH',
      path: table,
      required: ['baseId', 'table', 'records'],
      body: (input) => only(input, ['records', 'typecast']),
    },
    deleteRecord: {
      title: 'Deletes a record',
      method: 'DELETE',
      path: `${table}/{recordId}`,
      required: ['baseId', 'table', 'recordId'],
    },
  },
  example: `
baseId: appAbCdEfGhIjKlMn
table: Customers
token: \${AIRTABLE_TOKEN}
`,
})
