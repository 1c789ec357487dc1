import { get } from 'node:http'
import { createParser } from 'eventsource-parser'

/** A row of the table `tick`, as the stream brings it. */
export interface Tick {
  readonly id: number
  readonly phase: string
  /** `process.hrtime` when the insert left the writer: one clock for all processes of a machine. */
  readonly sent_ns: string
}

export interface Listener {
  close(): void
}

/** Opens a change stream; resolves when the server has accepted it. */
export function listen(
  url: string,
  token: string,
  events: { readonly onRow: (row: Tick) => void; readonly onEnd: (reason: string) => void },
): Promise<Listener> {
  return new Promise((resolve, reject) => {
    const headers = { accept: 'text/event-stream', authorization: `Bearer ${token}` }
    const request = get(url, { agent: false, headers }, (response) => {
      if (response.statusCode !== 200) {
        response.resume()
        reject(new Error(`The change stream was refused with ${response.statusCode}`))
        return
      }
      const parser = createParser({
        onEvent: ({ data }) => {
          const event = JSON.parse(data) as { readonly type?: string; readonly data?: Tick }
          if (event.type === 'INSERT' && event.data) events.onRow(event.data)
        },
      })
      response.setEncoding('utf8')
      response.on('data', (text: string) => parser.feed(text))
      response.on('close', () => events.onEnd('closed'))
      response.on('error', (error) => events.onEnd(error.message))
      resolve({ close: () => request.destroy() })
    })
    request.on('error', reject)
  })
}
