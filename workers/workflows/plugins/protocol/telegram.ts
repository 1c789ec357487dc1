import { Type } from 'typebox'
import { given } from '../saas/api-plugin.ts'
import { defineChatPlugin } from './chat-message.ts'

/** Source: https://core.telegram.org/bots/api#sendmessage */
export const telegram = defineChatPlugin({
  id: 'telegram.message',
  name: 'Telegram',
  description: 'Sends a message to a Telegram chat as a bot.',
  needs: 'The token of a bot that is in the chat',
  fields: {
    token: Type.String({ description: 'Token of the bot', examples: ['${TELEGRAM_TOKEN}'] }),
    chatId: Type.Union([Type.String(), Type.Integer()], {
      description: 'Id of the chat, or @name of the channel',
      examples: ['@busbar'],
    }),
    text: Type.String({ description: 'The message', maxLength: 4096, examples: ['It is done'] }),
    parseMode: Type.Optional(Type.String({ description: '`MarkdownV2` or `HTML`', examples: ['HTML'] })),
    silent: Type.Boolean({ description: 'Whether nobody is alerted', default: false, examples: [true] }),
    apiUrl: Type.String({
      description: 'Address of the API',
      default: 'https://api.telegram.org',
      examples: ['https://api.telegram.org'],
    }),
  },
  request: ({ token, chatId, text, parseMode, silent, apiUrl }) => ({
    url: `${apiUrl.replace(/\/+$/, '')}/bot${token}/sendMessage`,
    body: given({ chat_id: chatId, text, parse_mode: parseMode, disable_notification: silent }),
  }),
  example: `
token: \${TELEGRAM_TOKEN}
chatId: '@busbar'
text: It is done
`,
})
