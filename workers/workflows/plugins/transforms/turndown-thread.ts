import TurndownService from 'turndown'
import { TaskFailure } from '../../plugin.ts'

interface Asked {
  readonly text: string
  readonly bullet: '-' | '*' | '+'
  readonly gfm: boolean
}

interface TableNode {
  readonly nodeName: string
  readonly textContent: string | null
  readonly parentNode: TableNode | null
  readonly childNodes: ArrayLike<TableNode>
  readonly checked?: boolean
  getAttribute?(name: string): string | null
}

export function markdownOf({ text, bullet, gfm }: Asked): string {
  const service = new TurndownService({
    bulletListMarker: bullet,
    codeBlockStyle: 'fenced',
    emDelimiter: '*',
    headingStyle: 'atx',
    hr: '---',
  })
  service.remove(['script', 'style', 'template' as 'script', 'noscript', 'iframe'])
  if (gfm) addGfm(service)
  try {
    return `${service.turndown(text)}\n`
  } catch (error) {
    const told = error instanceof RangeError ? 'it nests too deep' : (error as Error).message
    throw new TaskFailure('refused', `This HTML cannot be read: ${told}`, error)
  }
}

/** Source: https://github.github.com/gfm/ */
function addGfm(service: TurndownService): void {
  service.addRule('struck', {
    filter: ['del', 's', 'strike' as 'del'],
    replacement: (content) => `~~${content}~~`,
  })
  service.addRule('task', {
    filter: (node) => node.nodeName === 'INPUT' && node.getAttribute('type') === 'checkbox',
    replacement: (_, node) => ((node as HTMLElementLike).getAttribute('checked') === null ? '[ ]' : '[x]'),
  })
  service.addRule('cell', {
    filter: ['th', 'td'],
    replacement: (content) =>
      ` ${content
        .trim()
        .replace(/\s*\n\s*/g, '<br>')
        .replace(/(?<!\\)\|/g, '\\|')} |`,
  })
  service.addRule('row', {
    filter: 'tr',
    replacement: (content, node) => {
      const row = node as unknown as TableNode
      const cells = Array.from(row.childNodes).filter(({ nodeName }) => nodeName === 'TH' || nodeName === 'TD')
      return `\n|${content}${isFirst(row) ? `\n|${' --- |'.repeat(cells.length)}` : ''}`
    },
  })
  service.addRule('section', { filter: ['thead', 'tbody', 'tfoot'], replacement: (content) => content })
  service.addRule('table', { filter: 'table', replacement: (content) => `\n\n${content.trim()}\n\n` })
}

interface HTMLElementLike {
  getAttribute(name: string): string | null
}

/** The first row of a table has to be its head. */
function isFirst(row: TableNode): boolean {
  const rowsOf = (node: TableNode): TableNode[] =>
    Array.from(node.childNodes).flatMap((child) => (child.nodeName === 'TR' ? [child] : rowsOf(child)))
  let table = row.parentNode
  while (table !== null && table.nodeName !== 'TABLE') table = table.parentNode
  return table !== null && rowsOf(table)[0] === row
}
