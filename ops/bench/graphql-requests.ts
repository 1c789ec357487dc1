import type { Started } from './processes.ts'

export const distinctRequests = 3000

/** Whole HTTP requests, numbered. */
export function getRequests(path: (n: number) => string): string[] {
  return numbered((n) => `GET ${path(n)} HTTP/1.1\r\nhost: localhost\r\n\r\n`)
}

/** The same of a document with the variables of each number. */
export function postRequests(query: string, variables: (n: number) => object): string[] {
  return numbered((n) => {
    const body = JSON.stringify({ query, variables: variables(n) })
    const headers = `content-type: application/json\r\naccept: application/json\r\ncontent-length: ${Buffer.byteLength(body)}`
    return `POST /graphql HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n\r\n${body}`
  })
}

function numbered(make: (n: number) => string): string[] {
  return Array.from({ length: distinctRequests }, (_, n) => make(n))
}

/** An error of GraphQL has status 200: the first answer is read. */
export async function requireData(side: Started, request: string): Promise<void> {
  const [head = '', body] = request.split('\r\n\r\n')
  const [method = '', path = ''] = head.split(' ')
  const options = method === 'POST' ? { method, body: body!, headers: { 'content-type': 'application/json' } } : {}
  const text = await (await fetch(new URL(path, side.url), options)).text()
  if (/"errors"|"code":/.test(text)) throw new Error(`${side.url}${path} answered ${text.slice(0, 500)}`)
}
