/** What is needed of an element, a text or a document. */
export interface Node {
  readonly type: string
  readonly name?: string
  readonly data?: string
  readonly children?: readonly Node[]
}

const blocks = new Set(
  'address article aside blockquote dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary table tbody tfoot thead tr ul'.split(
    ' ',
  ),
)
const unseen = new Set(['head', 'script', 'style', 'template', 'noscript', 'svg', 'iframe', 'object'])

/** As it would be read: blocks on lines of their own, cells with a tab between them, white space as one blank outside of `pre`. */
export function textIn(node: unknown): string {
  const pieces: string[] = []
  // By hand, since a page can nest deeper than calls can.
  const open: { readonly node: Node; readonly isPre: boolean; readonly isEnd: boolean }[] = [
    { node: node as Node, isPre: false, isEnd: false },
  ]
  for (let step = open.pop(); step !== undefined; step = open.pop()) {
    const { node, isPre, isEnd } = step
    const name = node.name ?? ''
    if (node.type === 'text') {
      const data = node.data ?? ''
      pieces.push(isPre ? data.replaceAll(' ', '\u00a0') : data.replace(/\s+/g, ' '))
      continue
    }
    if (unseen.has(name) && pieces.length + open.length > 0) continue
    if (name === 'br') pieces.push('\n')
    if (blocks.has(name)) pieces.push('\n')
    if (isEnd) {
      if (name === 'td' || name === 'th') pieces.push('\t')
      continue
    }
    open.push({ node, isPre, isEnd: true })
    const inside = isPre || name === 'pre' || name === 'textarea'
    for (const child of (node.children ?? []).toReversed()) open.push({ node: child, isPre: inside, isEnd: false })
  }
  return pieces
    .join('')
    .replace(/[ ]*\n[ \n]*/g, '\n')
    .replace(/ {2,}/g, ' ')
    .replace(/\t(?=\n|$)/g, '')
    .replaceAll('\u00a0', ' ')
    .trim()
}
