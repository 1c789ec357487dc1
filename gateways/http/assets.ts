import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** A file of a page: its content type, and how its body is made at the first request. */
export interface Asset {
  readonly path: string
  readonly type: string
  readonly make: () => Promise<Buffer>
}

interface Made {
  readonly tag: string
  readonly body: Buffer
  readonly gzipped: Buffer
}

const compress = promisify(gzip)

/** Of a page that takes nothing from elsewhere and nothing inline; its requests go to this server alone. */
export const ownPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Serves files that stay the same as long as the process runs: with an ETag, compressed on request. */
export function serveAssets(app: FastifyInstance, assets: readonly Asset[], policy: string): void {
  for (const asset of assets) serve(app, asset, policy)
}

/** Made at the first request, kept from then on. */
function serve(app: FastifyInstance, { path, type, make }: Asset, policy: string): void {
  let made: Promise<Made> | null = null
  app.get(path, async (request, reply) => {
    made ??= make()
      .then(async (body) => ({ tag: `W/"${hash('sha1', body, 'base64url')}"`, body, gzipped: await compress(body) }))
      .catch((error: unknown) => {
        made = null
        throw error
      })
    return answer(request, reply.headers(pageHeaders(policy)).type(type), await made)
  })
}

/** What every page and every file of one is sent with. */
export function pageHeaders(policy: string): Readonly<Record<string, string>> {
  return { 'Content-Security-Policy': policy, 'Referrer-Policy': 'no-referrer', 'Cache-Control': 'no-cache' }
}

function answer(request: FastifyRequest, reply: FastifyReply, { tag, body, gzipped }: Made): FastifyReply {
  reply.headers({ ETag: tag, Vary: 'Accept-Encoding' })
  if (request.headers['if-none-match']?.includes(tag)) return reply.code(304).send()
  const compressed = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(request.headers['accept-encoding'] ?? '')
  if (compressed) reply.header('Content-Encoding', 'gzip')
  return reply.send(compressed ? gzipped : body)
}

/** A text as it may stand in HTML, in an attribute too. */
export function escapedHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
