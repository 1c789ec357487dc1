import { defineApiPlugin, record, secret, text } from './api-plugin.ts'

const data = '/services/data/v62.0'

/** Source: https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/ */
export const salesforce = defineApiPlugin({
  id: 'saas.salesforce',
  name: 'Salesforce',
  description: 'Records of Salesforce: query, read, create, change, upsert and delete them.',
  needs: 'An OAuth access token of a connected app (https://developer.salesforce.com/docs/apis)',
  baseUrl: null,
  baseUrlExample: 'https://example.my.salesforce.com',
  credentials: { accessToken: secret('OAuth access token', 'SALESFORCE_TOKEN') },
  headers: ({ accessToken }) => ({ Authorization: `Bearer ${accessToken}` }),
  fields: {
    soql: text('Query in SOQL', "SELECT Id, Name FROM Account WHERE Name = 'Busbar'"),
    object: text('Kind of record', 'Account'),
    id: text('Id of the record', '001D000000INjVe'),
    externalField: text('Field that identifies the record', 'Customer_Number__c'),
    externalId: text('Its value', '4711'),
    record: record('Fields of the record', { Name: 'Busbar' }),
  },
  operations: {
    query: { title: 'Queries records', method: 'GET', path: `${data}/query`, required: ['soql'], query: { soql: 'q' } },
    get: {
      title: 'Reads a record',
      method: 'GET',
      path: `${data}/sobjects/{object}/{id}`,
      required: ['object', 'id'],
    },
    create: {
      title: 'Creates a record',
      method: 'POST',
      path: `${data}/sobjects/{object}`,
      required: ['object', 'record'],
      body: ({ record }) => record,
    },
    update: {
      title: 'Changes a record',
      method: 'PATCH',
      path: `${data}/sobjects/{object}/{id}`,
      required: ['object', 'id', 'record'],
      body: ({ record }) => record,
    },
    upsert: {
      title: 'Creates or changes a record by a field of your own',
      method: 'PATCH',
      path: `${data}/sobjects/{object}/{externalField}/{externalId}`,
      required: ['object', 'externalField', 'externalId', 'record'],
      body: ({ record }) => record,
    },
    delete: {
      title: 'Deletes a record',
      method: 'DELETE',
      path: `${data}/sobjects/{object}/{id}`,
      required: ['object', 'id'],
    },
  },
  example: `
soql: SELECT Id, Name FROM Account LIMIT 10
accessToken: \${SALESFORCE_TOKEN}
baseUrl: https://example.my.salesforce.com
`,
})
