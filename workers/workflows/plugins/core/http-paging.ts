import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { evaluateEach } from '../expression.ts'
import type { Answer } from './http-exchange.ts'
import type { HttpInput, PagingInput } from './http-properties.ts'

export interface Pages {
  readonly items: readonly unknown[]
  readonly pages: number
  readonly hasMore: boolean
  readonly attempts: number
  readonly sizeBytes: number
  readonly last: Answer
}

interface Page extends Answer {
  readonly body: unknown
}

const maxItems = 100_000
const maxTotalBytes = 64 * 1024 * 1024

/**
 * Page by page, until there is none or there have been enough.
 * @param ask sends one request and reads what comes back
 * @throws {TaskFailure} `refused` when a page has no list, there are too many items, or the next page is elsewhere
 */
export async function readPages(
  task: TaskRun<HttpInput>,
  paging: PagingInput,
  first: URL,
  ask: (url: URL) => Promise<Page>,
): Promise<Pages> {
  if ((paging.by === 'url' || paging.by === 'cursor') !== (paging.next !== undefined)) {
    throw new TaskFailure('refused', 'properties.paging.next is needed for url and cursor, and for nothing else')
  }
  const items: unknown[] = []
  const seen = new Set<string>()
  let attempts = 0
  let sizeBytes = 0
  let url = startOf(first, paging)
  for (let pages = 1; ; pages++) {
    seen.add(url.href)
    const page = await ask(url)
    const found = await itemsOf(task, paging, page.body)
    for (const item of found) items.push(item)
    attempts += page.attempts
    sizeBytes += page.bytes.length
    if (items.length > maxItems || sizeBytes > maxTotalBytes) {
      throw new TaskFailure('refused', `All pages together have more than ${maxItems} items or ${maxTotalBytes} bytes`)
    }
    const next = await nextOf(task, paging, { url, page, found: found.length, total: items.length, pages })
    if (next !== null && seen.has(next.href))
      throw new TaskFailure('refused', 'The next page is one that was read already')
    if (next === null || pages >= paging.maxPages) {
      return { items, pages, hasMore: next !== null, attempts, sizeBytes, last: page }
    }
    url = next
  }
}

function startOf(first: URL, { by, parameter = by, start }: PagingInput): URL {
  return by === 'page' ? withParameter(first, parameter, start) : first
}

async function itemsOf(task: TaskRun<HttpInput>, { items }: PagingInput, body: unknown): Promise<readonly unknown[]> {
  const found = items === undefined ? body : await valueIn(task, 'items', items, body)
  if (Array.isArray(found)) return found
  if (found === null) return []
  // JSONata gives a list of one as that one.
  if (items !== undefined) return [found]
  throw new TaskFailure('refused', 'A page is no list: properties.paging.items says where in it the items are')
}

interface Place {
  readonly url: URL
  readonly page: Page
  readonly found: number
  readonly total: number
  readonly pages: number
}

async function nextOf(task: TaskRun<HttpInput>, paging: PagingInput, place: Place): Promise<URL | null> {
  const { by, parameter = by, next, start } = paging
  const { url, page, found, total, pages } = place
  if (by === 'page') return found === 0 ? null : withParameter(url, parameter, start + pages)
  if (by === 'offset') return found === 0 ? null : withParameter(url, parameter, total)
  if (by === 'link') return sameOrigin(url, linkNext(page.response.headers.get('link')))
  const value = await valueIn(task, 'next', next!, page.body)
  if (value === null || value === '' || value === false) return null
  return by === 'url' ? sameOrigin(url, String(value)) : withParameter(url, parameter, value)
}

async function valueIn(task: TaskRun<HttpInput>, name: string, expression: string, body: unknown): Promise<unknown> {
  const [value] = await evaluateEach(task, { place: `properties.paging.${name}`, expression, items: [body] })
  return value
}

function withParameter(url: URL, name: string, value: unknown): URL {
  const next = new URL(url)
  next.searchParams.set(name, String(value))
  return next
}

/** What proves who asks goes along, so it does not go elsewhere. */
function sameOrigin(url: URL, next: string | null): URL | null {
  if (next === null) return null
  const found = URL.parse(next, url)
  if (found?.origin === url.origin) return found
  throw new TaskFailure('refused', 'The next page is on another server')
}

/** Source: RFC 8288 */
function linkNext(header: string | null): string | null {
  for (const [, target, parameters] of (header ?? '').matchAll(
    /<([^>]*)>((?:\s*;\s*[\w*]+\s*=\s*(?:"[^"]*"|[^\s",;]+))*)/g,
  )) {
    if (/;\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next(?:$|[\s;]))/i.test(parameters!)) return target!
  }
  return null
}
