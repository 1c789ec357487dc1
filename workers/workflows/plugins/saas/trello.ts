import { defineApiPlugin, secret, text, texts } from './api-plugin.ts'

const card = { name: 'name', desc: 'desc', due: 'due', idList: 'idList', idLabels: 'idLabels' } as const

/** Source: https://developer.atlassian.com/cloud/trello/rest/ */
export const trello = defineApiPlugin({
  id: 'saas.trello',
  name: 'Trello',
  description: 'Cards of Trello: create, change, move, comment and list them.',
  needs: 'An API key and a token (https://developer.atlassian.com/cloud/trello/rest/)',
  baseUrl: 'https://api.trello.com/1',
  baseUrlExample: 'https://api.trello.com/1',
  credentials: { apiKey: secret('The API key', 'TRELLO_KEY'), token: secret('The token', 'TRELLO_TOKEN') },
  headers: () => ({}),
  secretQuery: ({ apiKey, token }) => ({ key: String(apiKey), token: String(token) }),
  fields: {
    idList: text('Id of the list', '5abbe4b7ddc1b351ef961414'),
    idCard: text('Id of the card', '5abbe4b7ddc1b351ef961415'),
    name: text('Title of the card', 'Renew the certificate'),
    desc: text('Text of the card, Markdown', 'It ends on Friday.'),
    due: text('When it is due, RFC 3339', '2027-01-31T12:00:00Z'),
    idLabels: texts('Ids of labels', ['5abbe4b7ddc1b351ef961416']),
    text: text('Text of the comment', 'Done.'),
  },
  operations: {
    createCard: { title: 'Creates a card', method: 'POST', path: '/cards', required: ['idList', 'name'], query: card },
    updateCard: {
      title: 'Changes or moves a card',
      method: 'PUT',
      path: '/cards/{idCard}',
      required: ['idCard'],
      query: card,
    },
    addComment: {
      title: 'Comments a card',
      method: 'POST',
      path: '/cards/{idCard}/actions/comments',
      required: ['idCard', 'text'],
      query: { text: 'text' },
    },
    listCards: {
      title: 'Lists the cards of a list',
      method: 'GET',
      path: '/lists/{idList}/cards',
      required: ['idList'],
    },
    deleteCard: { title: 'Deletes a card', method: 'DELETE', path: '/cards/{idCard}', required: ['idCard'] },
  },
  example: `
idList: 5abbe4b7ddc1b351ef961414
name: Renew the certificate
apiKey: \${TRELLO_KEY}
token: \${TRELLO_TOKEN}
`,
})
