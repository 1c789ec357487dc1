import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { docsPage } from '../../gateways/http/docs-page.ts'
import { createHttpServer } from '../../gateways/http/server.ts'
import { type FrontPageOptions, frontPage } from '../../gateways/rest/front-page.ts'

async function served(options: { readonly specUrl: string; readonly title?: string }) {
  const app = await createHttpServer({
    maxBodyBytes: 1024,
    corsOrigins: ['*'],
    onFault: ({ error }) => t.fail(String(error)),
  })
  docsPage(app, options)
  return app
}

const app = await served({ specUrl: '/api/v1/openapi.json' })
t.teardown(() => app.close())

t.test('the page and all it refers to come from this server', async (t) => {
  const page = await app.inject('/docs')
  t.equal(page.statusCode, 200)
  t.match(page.headers['content-type'], /^text\/html/)
  t.match(page.body, /<meta name="spec-url" content="\/api\/v1\/openapi.json">/)
  t.match(page.body, /href="\/api\/v1\/openapi.yaml"/)
  t.notMatch(page.body, /https?:|\/\/[a-z]/, 'nothing from elsewhere')
  const assets = [...page.body.matchAll(/(?:src|href)="(\/docs\/[^"]+)"/g)].map((match) => match[1]!)
  t.equal(assets.length, 5)
  for (const asset of assets) {
    const { statusCode, headers, rawPayload } = await app.inject(asset)
    t.equal(statusCode, 200, asset)
    const type = asset.endsWith('.js') ? 'text/javascript' : asset.endsWith('.css') ? 'text/css' : 'image/png'
    t.match(headers['content-type'], type)
    t.ok(rawPayload.length > 100)
  }
  t.equal((await app.inject('/docs/')).statusCode, 200)
})

t.test('nothing inline is needed and nothing inline is allowed', async (t) => {
  const { headers, body } = await app.inject('/docs')
  const policy = String(headers['content-security-policy'])
  t.match(policy, /default-src 'none'/)
  t.match(policy, /script-src 'self'(;|$)/)
  t.notMatch(policy, /unsafe|https?:|\*/)
  t.notMatch(body, /<script(?![^>]*\bsrc=)[^>]*>|<style|\son\w+=|\sstyle=/)
  t.equal(headers['x-content-type-options'], 'nosniff')
})

t.test('no other file can be had', async (t) => {
  for (const path of [
    '/docs/index.html',
    '/docs/package.json',
    '/docs/../package.json',
    '/docs/..%2fpackage.json',
    '/docs/swagger-ui.js.map',
  ]) {
    t.equal((await app.inject(path)).statusCode, 404, path)
  }
})

t.test('assets are compressed on request, and not sent again when unchanged', async (t) => {
  const plain = await app.inject('/docs/swagger-ui.js')
  t.equal(plain.headers['content-encoding'], undefined)
  const small = await app.inject({ url: '/docs/swagger-ui.js', headers: { 'accept-encoding': 'br, gzip' } })
  t.equal(small.headers['content-encoding'], 'gzip')
  t.ok(gunzipSync(small.rawPayload).equals(plain.rawPayload))
  const refused = await app.inject({ url: '/docs/swagger-ui.js', headers: { 'accept-encoding': 'gzip;q=0' } })
  t.equal(refused.headers['content-encoding'], undefined)
  const again = await app.inject({
    url: '/docs/swagger-ui.js',
    headers: { 'if-none-match': String(plain.headers.etag) },
  })
  t.equal(again.statusCode, 304)
  t.equal(again.body, '')
})

t.test('what is configured cannot break out of its place', async (t) => {
  const other = await served({ specUrl: '/x"><script src=/y>', title: '<img src=x onerror=alert(1)>' })
  const { body } = await other.inject('/docs')
  t.notMatch(body, /<img|"><script/)
  await other.close()
})

t.test('the front page is the playground of the GraphQL API beside it, else it leads to the docs', async (t) => {
  const asked = async (options: FrontPageOptions, host: string) => {
    const other = await createHttpServer({ maxBodyBytes: 1024, corsOrigins: [], onFault: () => undefined })
    frontPage(other, options)
    const answer = await other.inject({ url: '/', headers: { host } })
    await other.close()
    return answer
  }
  const places: readonly [FrontPageOptions, string, string | null][] = [
    [{}, 'localhost:20000', null],
    [{ graphql: { port: 10000 } }, 'localhost:20000', 'http://localhost:10000/graphql'],
    [{ graphql: { port: 81 } }, '[::1]:20000', 'http://[::1]:81/graphql'],
    [{ graphql: { port: 10000 } }, 'a"><script src=/x>', null],
    [{ graphql: { port: 10000 } }, "shop.example;script-src'unsafe-inline'", null],
    [{ graphql: { url: 'https://api.shop.example/graphql' } }, 'any.example', 'https://api.shop.example/graphql'],
  ]
  for (const [options, host, endpoint] of places) {
    const { statusCode, headers, body } = await asked(options, host)
    if (endpoint === null) {
      t.equal(statusCode, 302, host)
      t.equal(headers.location, '/docs')
      continue
    }
    t.equal(statusCode, 200, host)
    t.match(body, `data-endpoint="${endpoint}"`)
    t.match(body, /<a href="\/docs">/)
    const policy = String(headers['content-security-policy'])
    t.match(policy, `connect-src ${new URL(endpoint).origin};`, 'requests go there alone')
    t.match(policy, /script-src 'self';/)
    t.notMatch(body, /<script(?![^>]*\bsrc=)[^>]*>|<style|\son\w+=|\sstyle=/)
  }
})
