import { Type } from 'typebox'
import { defineChatPlugin } from './chat-message.ts'

/** Source: https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using */
export const teams = defineChatPlugin({
  id: 'teams.message',
  name: 'Microsoft Teams',
  description: 'Posts an adaptive card to a Teams channel through a workflow webhook.',
  needs: 'The URL of a workflow that posts to the channel',
  fields: {
    webhookUrl: Type.String({ description: 'URL of the workflow', examples: ['${TEAMS_WEBHOOK}'] }),
    text: Type.Optional(Type.String({ description: 'The message', examples: ['It is done'] })),
    card: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'An adaptive card in place of the text',
        examples: [{ type: 'AdaptiveCard', version: '1.4', body: [] }],
      }),
    ),
  },
  request({ webhookUrl, text, card }) {
    const content = card ?? {
      $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
      type: 'AdaptiveCard',
      version: '1.4',
      body: [{ type: 'TextBlock', text: text ?? '', wrap: true }],
    }
    const attachment = { contentType: 'application/vnd.microsoft.card.adaptive', contentUrl: null, content }
    return { url: webhookUrl, body: { type: 'message', attachments: [attachment] } }
  },
  example: `
webhookUrl: \${TEAMS_WEBHOOK}
text: It is done
`,
})
