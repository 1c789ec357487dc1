import { Type } from 'typebox'

export const HttpOutput = Type.Object({
  status_code: Type.Integer({ description: 'Status of the (last) answer', examples: [200] }),
  headers: Type.Record(Type.String(), Type.String(), {
    description: 'Its headers, names in lower case',
    examples: [{ 'content-type': 'application/json' }],
  }),
  body: Type.Unknown({
    description: 'Its body; the items of all pages, the list of events, or null for a file',
    examples: [{ ok: true }],
  }),
  url: Type.String({ description: 'Where it came from', examples: ['https://example.com/api/orders'] }),
  uri: Type.Union([Type.String(), Type.Null()], {
    description: 'The file that it became, if it did',
    examples: ['busbar:///files/3q2-7w'],
  }),
  sizeBytes: Type.Integer({ description: 'Size of the body or bodies', examples: [11] }),
  pages: Type.Integer({ description: 'How many pages were read', examples: [1] }),
  hasMore: Type.Boolean({ description: 'Whether there are more pages', examples: [false] }),
  attempts: Type.Integer({ description: 'How many requests it took', examples: [1] }),
})
