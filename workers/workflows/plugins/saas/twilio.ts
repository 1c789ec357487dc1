import { basic, defineApiPlugin, given, secret, text, whole } from './api-plugin.ts'

const account = '/2010-04-01/Accounts/{accountSid}'

/** Source: https://www.twilio.com/docs/usage/api */
export const twilio = defineApiPlugin({
  id: 'saas.twilio',
  name: 'Twilio',
  description: 'Text messages, WhatsApp messages and calls through Twilio.',
  needs: 'An account with a number (https://www.twilio.com/docs/usage/api)',
  baseUrl: 'https://api.twilio.com',
  baseUrlExample: 'https://api.twilio.com',
  encoding: 'form',
  credentials: {
    accountSid: text('Id of the account', 'AC00000000000000000000000000000000'),
    authToken: secret('Its token', 'TWILIO_TOKEN'),
  },
  headers: ({ accountSid, authToken }) => ({ Authorization: basic(accountSid, authToken) }),
  fields: {
    from: text('Number of yours, or `whatsapp:` and a number', '+15017122661'),
    to: text('Number of the receiver', '+15558675310'),
    body: text('The message', 'Your order is on its way.'),
    mediaUrl: text('A picture that goes with it', 'https://example.com/order.png'),
    id: text('Id of the message', 'SM00000000000000000000000000000000'),
    url: text('Where the call gets its instructions', 'https://example.com/voice.xml'),
    twiml: text('The instructions themselves', '<Response><Say>Hello</Say></Response>'),
    pageSize: whole('How many, up to 1000', 50),
  },
  operations: {
    sendMessage: {
      title: 'Sends a message',
      method: 'POST',
      path: `${account}/Messages.json`,
      required: ['from', 'to', 'body'],
      body: ({ from, to, body, mediaUrl }) => given({ To: to, From: from, Body: body, MediaUrl: mediaUrl }),
    },
    getMessage: {
      title: 'Reads a message and its status',
      method: 'GET',
      path: `${account}/Messages/{id}.json`,
      required: ['id'],
    },
    listMessages: {
      title: 'Lists messages',
      method: 'GET',
      path: `${account}/Messages.json`,
      required: [],
      query: { to: 'To', from: 'From', pageSize: 'PageSize' },
    },
    call: {
      title: 'Makes a call',
      method: 'POST',
      path: `${account}/Calls.json`,
      required: ['from', 'to'],
      body: ({ from, to, url, twiml }) => given({ To: to, From: from, Url: url, Twiml: twiml }),
    },
  },
  example: `
from: '+15017122661'
to: '+15558675310'
body: Your order is on its way.
accountSid: AC00000000000000000000000000000000
authToken: \${TWILIO_TOKEN}
`,
})
