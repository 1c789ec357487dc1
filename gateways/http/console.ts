import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import { escapedHtml, ownPolicy, serveAssets } from './assets.ts'

export interface ConsolePage {
  readonly title: string
  /** Folder with the page's own files: `body.html`, `page.css`, `page.js` (a module) and the modules that it imports. */
  readonly folder: URL
  readonly links: readonly { readonly title: string; readonly href: string }[]
}

const shared = new URL('./console/', import.meta.url)

/** `GET /`: a page to look at a service and try it, with a field for the token that its requests carry. */
export function consolePage(app: FastifyInstance, { title, folder, links }: ConsolePage): void {
  const script = 'text/javascript; charset=utf-8'
  const style = 'text/css; charset=utf-8'
  const file = (from: URL, name: string) => () => readFile(new URL(name, from))
  const whole = async () => Buffer.from(page(title, links, await readFile(new URL('body.html', folder), 'utf8')))
  serveAssets(
    app,
    [
      { path: '/', type: 'text/html; charset=utf-8', make: whole },
      { path: '/console/console.js', type: script, make: file(shared, 'console.js') },
      { path: '/console/console.css', type: style, make: file(shared, 'console.css') },
      ...readdirSync(folder)
        .filter((name) => name.endsWith('.js'))
        .map((name) => ({ path: `/console/${name}`, type: script, make: file(folder, name) })),
      { path: '/console/page.css', type: style, make: file(folder, 'page.css') },
    ],
    ownPolicy,
  )
}

function page(title: string, links: ConsolePage['links'], body: string): string {
  const anchors = links.map((link) => `<a href="${escapedHtml(link.href)}">${escapedHtml(link.title)}</a>`).join('')
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapedHtml(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/console/console.css">
<link rel="stylesheet" href="/console/page.css">
<script type="module" src="/console/page.js"></script>
</head>
<body>
<header class="bar">
<strong>${escapedHtml(title)}</strong>
<nav>${anchors}</nav>
<label for="authorization">Authorization</label>
<input id="authorization" type="password" autocomplete="off" spellcheck="false" placeholder="Bearer &lt;token&gt;, where tokens are asked for">
</header>
<noscript>This page needs JavaScript; the API does not.</noscript>
${body}
<p id="told" role="status" hidden></p>
</body>
</html>
`
}
