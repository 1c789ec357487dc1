import { defineApiPlugin, list, only, record, secret, text, whole } from './api-plugin.ts'

/** Source: https://developers.hubspot.com/docs/api/crm */
export const hubspot = defineApiPlugin({
  id: 'saas.hubspot',
  name: 'HubSpot',
  description: 'Contacts, companies, deals and other objects of the HubSpot CRM.',
  needs: 'The token of a private app (https://developers.hubspot.com/docs/api/crm)',
  baseUrl: 'https://api.hubapi.com',
  baseUrlExample: 'https://api.hubapi.com',
  credentials: { token: secret('Token of the private app', 'HUBSPOT_TOKEN') },
  headers: ({ token }) => ({ Authorization: `Bearer ${token}` }),
  fields: {
    object: text('`contacts`, `companies`, `deals`, `tickets` or another kind', 'contacts'),
    id: text('Id of the object', '512'),
    properties: record('Its properties', { email: 'ann@example.com', firstname: 'Ann' }),
    associations: list('What it belongs to', []),
    filterGroups: list('What it must have', [
      { filters: [{ propertyName: 'email', operator: 'EQ', value: 'ann@example.com' }] },
    ]),
    sorts: list('In which order', ['createdate']),
    limit: whole('How many, up to 200', 100),
    after: text('From the answer before', '100'),
  },
  operations: {
    create: {
      title: 'Creates an object',
      method: 'POST',
      path: '/crm/v3/objects/{object}',
      required: ['object', 'properties'],
      body: (input) => only(input, ['properties', 'associations']),
    },
    get: { title: 'Reads an object', method: 'GET', path: '/crm/v3/objects/{object}/{id}', required: ['object', 'id'] },
    update: {
      title: 'Changes an object',
      method: 'PATCH',
      path: '/crm/v3/objects/{object}/{id}',
      required: ['object', 'id', 'properties'],
      body: (input) => only(input, ['properties']),
    },
    delete: {
      title: 'Archives an object',
      method: 'DELETE',
      path: '/crm/v3/objects/{object}/{id}',
      required: ['object', 'id'],
    },
    search: {
      title: 'Finds objects',
      method: 'POST',
      path: '/crm/v3/objects/{object}/search',
      required: ['object', 'filterGroups'],
      body: (input) => only(input, ['filterGroups', 'sorts', 'limit', 'after']),
    },
  },
  example: `
object: contacts
properties: { email: ann@example.com, firstname: Ann }
token: \${HUBSPOT_TOKEN}
`,
})
