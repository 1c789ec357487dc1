import { type AnyFeed, type AtomFeed, type JsonFeed, parseFeed, type RdfFeed, type RssFeed } from 'feedsmith'
import { TaskFailure } from '../../plugin.ts'

interface FeedItem {
  readonly id: string | null
  readonly title: string | null
  readonly link: string | null
  /** RFC 3339, or as written when it is no time; as all times here. */
  readonly publishedAt: string | null
  readonly updatedAt: string | null
  readonly authors: readonly string[]
  readonly summary: string | null
  /** HTML or text. */
  readonly content: string | null
  readonly categories: readonly string[]
  readonly attachments: readonly {
    readonly url: string
    readonly type: string | null
    readonly sizeBytes: number | null
  }[]
}

interface Read {
  readonly bytes: Uint8Array
  /** As the header says. */
  readonly charset: string | null
  readonly since: string | null
  readonly limit: number
}

/** @throws {TaskFailure} `refused` for what is no feed */
export function read({ bytes, charset, since, limit }: Read) {
  const parsed = parse(textOf(bytes, charset))
  const { items, ...feed } = plainFeed(parsed)
  const from = since === null ? Number.NEGATIVE_INFINITY : Date.parse(since)
  const timed = items.map((item) => ({ item, at: Date.parse(item.publishedAt ?? item.updatedAt ?? '') }))
  const wanted = since === null ? timed : timed.filter(({ at }) => at > from)
  // Those without a time stay where they are among each other, after the others.
  wanted.sort((a, b) => (Number.isNaN(b.at) ? 0 : b.at) - (Number.isNaN(a.at) ? 0 : a.at))
  return { feed: { format: parsed.format, ...feed }, items: wanted.slice(0, limit).map(({ item }) => item) }
}

function textOf(bytes: Uint8Array, charset: string | null): string {
  const start = Buffer.from(bytes.subarray(0, 200)).toString('latin1')
  const declared = charset ?? /^[^<]*<\?xml[^>]*encoding=["']([\w-]+)/i.exec(start)?.[1] ?? 'utf-8'
  try {
    return new TextDecoder(declared).decode(bytes)
  } catch (cause) {
    throw new TaskFailure('refused', `The feed is written in ${declared}, which is not known`, cause)
  }
}

function parse(text: string): AnyFeed {
  if (/<!ENTITY/i.test(text.slice(0, 4_096))) throw new TaskFailure('refused', 'The feed declares entities')
  try {
    return parseFeed(text)
  } catch (cause) {
    throw new TaskFailure('refused', 'What was read is no feed: neither RSS nor Atom, RDF or JSON Feed', cause)
  }
}

function plainFeed(parsed: AnyFeed) {
  const { format, feed } = parsed
  if (format === 'atom') {
    return {
      title: feed.title?.value ?? null,
      link: linkOf(feed.links),
      description: feed.subtitle?.value ?? null,
      items: (feed.entries ?? []).map(atomItem),
    }
  }
  const {
    title = null,
    description = null,
    items = [],
  } = feed as { title?: string; description?: string; items?: unknown[] }
  if (format === 'json') {
    const link = feed.home_page_url ?? null
    return { title, link, description, items: (items as JsonFeed.Item<string>[]).map(jsonItem) }
  }
  return { title, link: feed.link ?? null, description, items: (items as RssFeed.Item<string>[]).map(rssItem) }
}

function atomItem(entry: AtomFeed.Entry<string>): FeedItem {
  const { id, title, links = [], published, updated, authors = [], summary, content, categories = [] } = entry
  return {
    id: id ?? null,
    title: title?.value ?? null,
    link: linkOf(links),
    publishedAt: time(published ?? updated),
    updatedAt: time(updated),
    authors: authors.flatMap(({ name }) => name ?? []),
    summary: summary?.value ?? null,
    content: content?.value ?? null,
    categories: categories.flatMap(({ term }) => term ?? []),
    attachments: links
      .filter(({ rel }) => rel === 'enclosure')
      .map(({ href, type, length }) => ({ url: href ?? '', type: type ?? null, sizeBytes: length ?? null })),
  }
}

function jsonItem(item: JsonFeed.Item<string>): FeedItem {
  return {
    id: item.id ?? null,
    title: item.title ?? null,
    link: item.url ?? item.external_url ?? null,
    publishedAt: time(item.date_published ?? item.date_modified),
    updatedAt: time(item.date_modified),
    authors: (item.authors ?? []).flatMap(({ name }) => name ?? []),
    summary: item.summary ?? null,
    content: item.content_html ?? item.content_text ?? null,
    categories: item.tags ?? [],
    attachments: (item.attachments ?? []).map(({ url, mime_type: type, size_in_bytes: size }) => ({
      url: url ?? '',
      type: type ?? null,
      sizeBytes: size ?? null,
    })),
  }
}

/** Of RSS, and of RDF, which knows less. */
function rssItem(item: RssFeed.Item<string> | RdfFeed.Item<string>): FeedItem {
  const {
    guid,
    pubDate,
    authors = [],
    categories = [],
    enclosures = [],
    title,
    link,
    description,
    content,
    dc,
  } = item as RssFeed.Item<string>
  return {
    id: guid?.value ?? link ?? null,
    title: title ?? null,
    link: link ?? null,
    publishedAt: time(pubDate ?? dc?.dates?.[0]),
    updatedAt: null,
    authors: [...authors.flatMap(({ name, email }) => name ?? email ?? []), ...(dc?.creators ?? [])],
    summary: description ?? null,
    content: content?.encoded ?? null,
    categories: categories.flatMap(({ name }) => name ?? []),
    attachments: enclosures.map(({ url, type, length }) => ({
      url: url ?? '',
      type: type ?? null,
      sizeBytes: length ?? null,
    })),
  }
}

function linkOf(links: readonly { readonly href?: string; readonly rel?: string }[] = []): string | null {
  return (links.find(({ rel = 'alternate' }) => rel === 'alternate') ?? links[0])?.href ?? null
}

function time(written: string | undefined): string | null {
  if (written === undefined) return null
  const at = Date.parse(written)
  return Number.isNaN(at) ? written : new Date(at).toISOString()
}
