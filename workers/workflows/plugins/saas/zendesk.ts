import { basic, defineApiPlugin, flag, given, record, secret, text, texts } from './api-plugin.ts'

/** Source: https://developer.zendesk.com/api-reference/ticketing/introduction/ */
export const zendesk = defineApiPlugin({
  id: 'saas.zendesk',
  name: 'Zendesk',
  description: 'Tickets of Zendesk Support.',
  needs: 'An API token (https://developer.zendesk.com/api-reference/)',
  baseUrl: null,
  baseUrlExample: 'https://example.zendesk.com',
  credentials: {
    email: text('E-mail address of the agent', 'ann@example.com'),
    token: secret('API token', 'ZENDESK_TOKEN'),
  },
  headers: ({ email, token }, key) => ({ Authorization: basic(`${email}/token`, token), 'Idempotency-Key': key }),
  fields: {
    id: text('Id of the ticket', '35436'),
    subject: text('Title of the ticket', 'My printer is on fire'),
    comment: text('What is said', 'The smoke is very colorful.'),
    public: flag('Whether the requester sees the comment'),
    priority: text('`low`, `normal`, `high` or `urgent`', 'high'),
    status: text('`open`, `pending`, `hold` or `solved`', 'solved'),
    tags: texts('Tags', ['printer']),
    requester: record('Who asks', { name: 'Bob', email: 'bob@example.com' }),
    query: text('What to search for', 'type:ticket status:open'),
  },
  operations: {
    createTicket: {
      title: 'Creates a ticket',
      method: 'POST',
      path: '/api/v2/tickets.json',
      required: ['subject', 'comment'],
      body: (input) => ({ ticket: ticketOf(input) }),
    },
    getTicket: { title: 'Reads a ticket', method: 'GET', path: '/api/v2/tickets/{id}.json', required: ['id'] },
    updateTicket: {
      title: 'Changes or answers a ticket',
      method: 'PUT',
      path: '/api/v2/tickets/{id}.json',
      required: ['id'],
      body: (input) => ({ ticket: ticketOf(input) }),
    },
    search: {
      title: 'Searches',
      method: 'GET',
      path: '/api/v2/search.json',
      required: ['query'],
      query: { query: 'query' },
    },
  },
  example: `
subject: My printer is on fire
comment: The smoke is very colorful.
email: ann@example.com
token: \${ZENDESK_TOKEN}
baseUrl: https://example.zendesk.com
`,
})

function ticketOf(input: Readonly<Record<string, unknown>>) {
  const { subject, comment, priority, status, tags, requester } = input
  const said = comment === undefined ? undefined : given({ body: comment, public: input.public })
  return given({ subject, comment: said, priority, status, tags, requester })
}
