import { Type } from 'typebox'
import { given } from '../saas/api-plugin.ts'
import { defineChatPlugin } from './chat-message.ts'

/** Source: https://discord.com/developers/docs/resources/webhook#execute-webhook */
export const discord = defineChatPlugin({
  id: 'discord.message',
  name: 'Discord',
  description: 'Posts a message to a Discord channel through a webhook.',
  needs: 'The URL of a webhook of the channel',
  fields: {
    webhookUrl: Type.String({ description: 'URL of the webhook', examples: ['${DISCORD_WEBHOOK}'] }),
    content: Type.Optional(
      Type.String({ description: 'The message, Markdown', maxLength: 2000, examples: ['It is **done**'] }),
    ),
    username: Type.Optional(Type.String({ description: 'Under which name', examples: ['Busbar'] })),
    embeds: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'Embeds, up to 10', maxItems: 10, examples: [[{ title: 'Done' }]] }),
    ),
  },
  request({ webhookUrl, content, username, embeds }) {
    const url = new URL(webhookUrl)
    // The answer is then the message.
    url.searchParams.set('wait', 'true')
    return { url: url.href, body: given({ content, username, embeds }) }
  },
  example: `
webhookUrl: \${DISCORD_WEBHOOK}
content: It is **done**
`,
})
