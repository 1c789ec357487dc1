import { Marked, type Token, type Tokens } from 'marked'
import { TaskFailure } from '../../plugin.ts'
import { parse as parseYaml } from './yaml-thread.ts'

interface Asked {
  readonly text: string
  readonly gfm: boolean
  readonly breaks: boolean
  readonly html: 'escape' | 'drop' | 'keep'
  readonly headingIds: boolean
  readonly frontMatter: boolean
}

interface Heading {
  readonly level: number
  readonly text: string
  readonly id: string
}

const withFrontMatter = /^---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/
const runningUrl = /^\s*(?!https?:|mailto:|tel:|ftp:|#)[a-z][a-z0-9+.-]*:/i

/** Source: https://spec.commonmark.org/0.31.2/, https://github.github.com/gfm/ */
export function htmlOf({ text, frontMatter, ...asked }: Asked) {
  const [head = '', front] = (frontMatter && withFrontMatter.exec(text)) || []
  const headings: Heading[] = []
  try {
    const made = markedFor(asked, headings).parse(text.slice(head.length), { async: false })
    return { made, headings, frontMatter: front === undefined ? null : parsedFront(front) }
  } catch (error) {
    if (error instanceof TaskFailure) throw error
    const told = error instanceof RangeError ? 'it nests too deep' : (error as Error).message
    throw new TaskFailure('refused', `This Markdown cannot be read: ${told}`, error)
  }
}

function markedFor(
  { gfm, breaks, html, headingIds }: Omit<Asked, 'text' | 'frontMatter'>,
  headings: Heading[],
): Marked {
  const ids = new Map<string, number>()
  const marked = new Marked({ gfm, breaks, async: false })
  marked.use({
    walkTokens: (token) => {
      if (token.type === 'heading') headings.push(headingOf(token as Tokens.Heading, ids))
      if ((token.type === 'link' || token.type === 'image') && html !== 'keep' && runs(String(token.href)))
        token.href = '#'
    },
    renderer: {
      ...(html !== 'keep' && {
        html: ({ text, block }: Tokens.HTML | Tokens.Tag) => {
          if (html === 'drop') return ''
          return block ? `<p>${escaped(text.trim())}</p>\n` : escaped(text)
        },
      }),
      ...(headingIds && {
        heading(this: { parser: { parseInline(tokens: Token[]): string } }, token: Tokens.Heading) {
          const { level, id } = headings[seen++]!
          return `<h${level} id="${escaped(id)}">${this.parser.parseInline(token.tokens)}</h${level}>\n`
        },
      }),
    },
  })
  // They are rendered in the order in which they were met.
  let seen = 0
  return marked
}

/**
 * Blanks and control characters within the scheme do not count for a browser either, and what is written as a reference (`&colon;`) is
 * what it stands for.
 */
function runs(url: string): boolean {
  return runningUrl.test(url.replace(/[\0-\x20]/g, '')) || /&[#a-z]/i.test(url.split(/[/?]/)[0]!)
}

function headingOf({ depth, tokens }: Tokens.Heading, ids: Map<string, number>): Heading {
  const text = plainText(tokens).trim()
  const slug = text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-')
  const before = ids.get(slug) ?? 0
  ids.set(slug, before + 1)
  return { level: depth, text, id: before === 0 ? slug : `${slug}-${before}` }
}

function plainText(tokens: readonly Token[]): string {
  return tokens
    .map((token) => {
      if (token.type === 'html') return ''
      if ('tokens' in token && token.tokens) return plainText(token.tokens)
      return 'text' in token ? String(token.text) : ''
    })
    .join('')
    .replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => entities[name]!)
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }

function escaped(text: string): string {
  return text.replace(
    /[&<>"']/g,
    (character) => `&${Object.keys(entities).find((name) => entities[name] === character)};`,
  )
}

function parsedFront(text: string): unknown {
  try {
    return parseYaml({ text, format: 'yaml', merge: false }).value
  } catch (error) {
    if (error instanceof TaskFailure) throw new TaskFailure('refused', `The front matter: ${error.message}`, error)
    throw error
  }
}
