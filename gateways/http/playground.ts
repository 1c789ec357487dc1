import type { FastifyInstance, FastifyReply } from 'fastify'
import { type Asset, escapedHtml, pageHeaders, serveAssets } from './assets.ts'
import { playgroundScript, playgroundStyle } from './playground-script.ts'

export interface PlaygroundPage {
  /** The GraphQL endpoint as the browser reaches it: a path of this server, or a whole URL. */
  readonly endpoint: string
  readonly links?: readonly { readonly title: string; readonly href: string }[]
}

const title = 'GraphQL playground'

/**
 * Everything comes from this server and no script is inline; requests go to the endpoint alone. The editor writes style elements and
 * its icons and fonts are data URLs of the style sheet.
 */
function policy(connect: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "worker-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "font-src 'self' data:",
    "img-src 'self' data:",
    `connect-src ${connect}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

/** The files of the page, under `/playground/`. */
export function playgroundAssets(app: FastifyInstance): void {
  const script = 'text/javascript; charset=utf-8'
  const style = 'text/css; charset=utf-8'
  // Large, and not needed before somebody looks.
  const bundle = () => import('@graphql-yoga/render-graphiql/graphiql')
  type Part = keyof Awaited<ReturnType<typeof bundle>>
  const part = (name: Part) => async () => Buffer.from((await bundle())[name])
  const assets: readonly Asset[] = [
    { path: '/playground/page.js', type: script, make: async () => Buffer.from(playgroundScript) },
    { path: '/playground/page.css', type: style, make: async () => Buffer.from(playgroundStyle) },
    { path: '/playground/graphiql.js', type: script, make: part('js') },
    { path: '/playground/graphiql.css', type: style, make: part('css') },
    { path: '/playground/editor.worker.js', type: script, make: part('editorWorkerService') },
    { path: '/playground/json.worker.js', type: script, make: part('jsonWorker') },
    { path: '/playground/graphql.worker.js', type: script, make: part('graphqlWorker') },
    { path: '/playground/favicon.ico', type: 'image/x-icon', make: favicon },
  ]
  serveAssets(app, assets, policy("'self'"))
}

/** The bundle has it as a data URL. */
async function favicon(): Promise<Buffer> {
  const { favicon: url } = await import('@graphql-yoga/render-graphiql/graphiql')
  return Buffer.from(url.slice(url.indexOf(',') + 1), 'base64')
}

/** Answers with the page that queries the endpoint. */
export function replyPlayground(reply: FastifyReply, { endpoint, links = [] }: PlaygroundPage): FastifyReply {
  const connect = endpoint.startsWith('/') ? "'self'" : new URL(endpoint).origin
  const anchors = links.map((link) => `<a href="${escapedHtml(link.href)}">${escapedHtml(link.title)}</a>`).join(' ')
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="/playground/favicon.ico">
<link rel="stylesheet" href="/playground/graphiql.css">
<link rel="stylesheet" href="/playground/page.css">
<script src="/playground/graphiql.js" defer></script>
<script src="/playground/page.js" defer></script>
</head>
<body>
<header class="bar"><strong>${title}</strong> <code>${escapedHtml(endpoint)}</code><nav>${anchors}</nav></header>
<div id="playground" data-endpoint="${escapedHtml(endpoint)}"><noscript>This page needs JavaScript; the GraphQL endpoint is ${escapedHtml(endpoint)}.</noscript></div>
</body>
</html>
`
  return reply
    .headers(pageHeaders(policy(connect)))
    .type('text/html; charset=utf-8')
    .send(html)
}
