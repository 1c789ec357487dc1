import { defineApiPlugin, given, list, only, record, secret, text, texts } from './api-plugin.ts'

const address = (email: unknown) => ({ email })

/** Source: https://www.twilio.com/docs/sendgrid/api-reference */
export const sendgrid = defineApiPlugin({
  id: 'saas.sendgrid',
  name: 'SendGrid',
  description: 'Sends mail through SendGrid, also from templates, and keeps marketing contacts.',
  needs: 'An API key and a verified sender (https://www.twilio.com/docs/sendgrid)',
  baseUrl: 'https://api.sendgrid.com',
  baseUrlExample: 'https://api.eu.sendgrid.com',
  credentials: { apiKey: secret('API key', 'SENDGRID_KEY') },
  headers: ({ apiKey }) => ({ Authorization: `Bearer ${apiKey}` }),
  fields: {
    from: text('Address of the sender', 'shop@example.com'),
    to: texts('Addresses of the receivers', ['ann@example.com']),
    cc: texts('Addresses that get a copy', ['bob@example.com']),
    subject: text('Subject', 'Your order'),
    text: text('The mail as plain text', 'It is on its way.'),
    html: text('The mail as HTML', '<p>It is on its way.</p>'),
    template_id: text('Id of a dynamic template', 'd-8096b5dacc254c8b882816f22d1d11fe'),
    dynamic_template_data: record('What the template shows', { name: 'Ann' }),
    contacts: list('Contacts', [{ email: 'ann@example.com', first_name: 'Ann' }]),
    list_ids: texts('Lists the contacts are put on', ['5e0a1a4e-2d5a-4f7f-8b6c-000000000000']),
  },
  operations: {
    send: {
      title: 'Sends a mail',
      method: 'POST',
      path: '/v3/mail/send',
      required: ['from', 'to'],
      body: (input) => {
        const content = [
          { type: 'text/plain', value: input.text },
          { type: 'text/html', value: input.html },
        ].filter(({ value }) => value !== undefined)
        return given({
          personalizations: [
            given({
              to: (input.to as string[]).map(address),
              cc: (input.cc as string[] | undefined)?.map(address),
              dynamic_template_data: input.dynamic_template_data,
            }),
          ],
          from: address(input.from),
          subject: input.subject,
          content: content.length === 0 ? undefined : content,
          template_id: input.template_id,
        })
      },
    },
    upsertContacts: {
      title: 'Creates or changes contacts',
      method: 'PUT',
      path: '/v3/marketing/contacts',
      required: ['contacts'],
      body: (input) => only(input, ['list_ids', 'contacts']),
    },
  },
  example: `
from: shop@example.com
to: [ann@example.com]
subject: Your order
text: It is on its way.
apiKey: \${SENDGRID_KEY}
`,
})
