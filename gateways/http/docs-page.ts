import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { FastifyInstance } from 'fastify'
import { escapedHtml as escaped, ownPolicy, serveAssets } from './assets.ts'

export interface DocsPageOptions {
  /** Where the OpenAPI document is, as the browser asks for it. Its YAML is expected beside it. */
  readonly specUrl: string
  /** Default: `REST API`. */
  readonly title?: string
}

const locate = createRequire(import.meta.url)

/**
 * `GET /docs`: a page that shows the OpenAPI document and tries its operations, with an Authorization header where one is given.
 * Everything it needs comes from this server, under `/docs/`.
 */
export function docsPage(app: FastifyInstance, { specUrl, title = 'REST API' }: DocsPageOptions): void {
  const html = 'text/html; charset=utf-8'
  const script = 'text/javascript; charset=utf-8'
  const style = 'text/css; charset=utf-8'
  serveAssets(
    app,
    [
      { path: '/docs', type: html, make: text(page(specUrl, title)) },
      { path: '/docs/page.js', type: script, make: text(pageScript) },
      { path: '/docs/page.css', type: style, make: text(pageStyle) },
      { path: '/docs/swagger-ui.js', type: script, make: distributed('swagger-ui-bundle.js') },
      { path: '/docs/swagger-ui.css', type: style, make: distributed('swagger-ui.css') },
      { path: '/docs/favicon.png', type: 'image/png', make: distributed('favicon-32x32.png') },
    ],
    ownPolicy,
  )
}

/** A file of the swagger-ui package. */
function distributed(file: string): () => Promise<Buffer> {
  return () => readFile(locate.resolve(`swagger-ui-dist/${file}`))
}

const text = (content: string) => async () => Buffer.from(content)

function page(specUrl: string, title: string): string {
  const yamlUrl = specUrl.replace(/\.json$/, '.yaml')
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="spec-url" content="${escaped(specUrl)}">
<title>${escaped(title)}</title>
<link rel="icon" type="image/png" href="/docs/favicon.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="stylesheet" href="/docs/page.css">
<script src="/docs/swagger-ui.js" defer></script>
<script src="/docs/page.js" defer></script>
</head>
<body>
<header class="bar">
<strong>${escaped(title)}</strong>
<label for="authorization">Authorization</label>
<input id="authorization" type="text" autocomplete="off" spellcheck="false" placeholder="Bearer &lt;token&gt;, sent with every request">
<nav><a href="${escaped(specUrl)}">JSON</a> <a href="${escaped(yamlUrl)}">YAML</a></nav>
</header>
<main id="docs"><noscript>This page needs JavaScript; the description is at <a href="${escaped(specUrl)}">${escaped(specUrl)}</a>.</noscript></main>
</body>
</html>
`
}

const pageScript = `'use strict'
const field = document.getElementById('authorization')
field.value = sessionStorage.getItem('authorization') ?? ''
field.addEventListener('input', () => sessionStorage.setItem('authorization', field.value))

/** A bare token is a bearer's. */
const authorization = () => {
  const text = field.value.trim()
  return text === '' || /\\s/.test(text) ? text : 'Bearer ' + text
}

SwaggerUIBundle({
  url: document.querySelector('meta[name="spec-url"]').content,
  dom_id: '#docs',
  deepLinking: true,
  docExpansion: 'none',
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  requestInterceptor(request) {
    const value = authorization()
    if (value !== '' && request.headers.Authorization === undefined) request.headers.Authorization = value
    return request
  },
})
`

const pageStyle = `body { margin: 0; background: #fafafa; }
.bar {
  position: sticky; top: 0; z-index: 10; display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 0.75rem;
  padding: 0.6rem 1.25rem; background: #17324d; color: #fff; font: 14px/1.4 system-ui, sans-serif;
}
.bar strong { margin-right: auto; font-size: 16px; }
.bar input {
  flex: 0 1 26rem; min-width: 10rem; padding: 0.35rem 0.6rem; border: 1px solid #5b7c9d; border-radius: 4px;
  background: #0f2438; color: #fff; font: 13px/1.4 ui-monospace, monospace;
}
.bar input::placeholder { color: #9db4ca; }
.bar input:focus-visible, .bar a:focus-visible { outline: 2px solid #ffd166; outline-offset: 1px; }
.bar a { color: #cfe3f7; }
noscript { display: block; padding: 2rem; font: 16px/1.5 system-ui, sans-serif; }
.swagger-ui .info { margin: 1.5rem 0; }
.swagger-ui .markdown table { width: auto; }
`
