import { Type } from 'typebox'
import { TaskFailure } from '../../plugin.ts'
import { given } from '../saas/api-plugin.ts'
import { defineChatPlugin } from './chat-message.ts'

/** Source: https://api.slack.com/methods/chat.postMessage and https://api.slack.com/messaging/webhooks */
export const slack = defineChatPlugin({
  id: 'slack.message',
  name: 'Slack',
  description: 'Posts a message to Slack, through an incoming webhook or as a bot.',
  needs: 'The URL of an incoming webhook, or a bot token with `chat:write`',
  fields: {
    webhookUrl: Type.Optional(
      Type.String({ description: 'URL of an incoming webhook', examples: ['${SLACK_WEBHOOK}'] }),
    ),
    token: Type.Optional(
      Type.String({ description: 'Bot token; then `channel` is needed', examples: ['${SLACK_TOKEN}'] }),
    ),
    channel: Type.Optional(Type.String({ description: 'Id or name of the channel', examples: ['C0123456789'] })),
    text: Type.String({ description: 'The message, Slack markup', examples: ['It is *done*'] }),
    blocks: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'Layout blocks', examples: [[{ type: 'divider' }]] }),
    ),
    threadTs: Type.Optional(Type.String({ description: 'Message that it answers', examples: ['1503435956.000247'] })),
    apiUrl: Type.String({
      description: 'Address of the API',
      default: 'https://slack.com/api',
      examples: ['https://slack.com/api'],
    }),
  },
  request({ webhookUrl, token, channel, text, blocks, threadTs, apiUrl }) {
    if (webhookUrl !== undefined) return { url: webhookUrl, body: given({ text, blocks, thread_ts: threadTs }) }
    if (token === undefined || channel === undefined) {
      throw new TaskFailure('refused', 'properties needs webhookUrl, or token and channel')
    }
    return {
      url: `${apiUrl.replace(/\/+$/, '')}/chat.postMessage`,
      headers: { Authorization: `Bearer ${token}` },
      body: given({ channel, text, blocks, thread_ts: threadTs }),
    }
  },
  example: `
webhookUrl: \${SLACK_WEBHOOK}
text: It is *done*
`,
})
