import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { lookForChromium } from '../../ops/local/chromium.ts'
import { postgresHome } from '../../ops/local/postgres-home.ts'
import { checkout } from '../../ops/settings.ts'
import { environment } from '../../schemas/config/environment.ts'
import { type Command, ownPlace, startBusbar } from '../support/command.ts'

t.setTimeout(240_000)

const executablePath = lookForChromium(environment().PATH ?? '')
const screenshots = join(checkout, '.busbar/screenshots')

interface Platform {
  readonly rest: string
  readonly graphql: string
  /** The sample database. */
  readonly database: string
}

async function startPlatform(t: Test): Promise<Platform> {
  const { args, folder } = await ownPlace(t)
  const port = (key: string) => args.find((arg) => arg.startsWith(`--${key}.port=`))?.split('=')[1]
  const up: Command = startBusbar(['up', ...args])
  t.teardown(async () => {
    up.process.kill('SIGINT')
    await up.finished
  })
  await up.printed('Busbar runs')
  const password = readFileSync(join(postgresHome(folder), 'password'), 'utf8').trim()
  return {
    rest: `http://127.0.0.1:${port('gateway.rest')}`,
    graphql: `http://127.0.0.1:${port('gateway.graphql')}`,
    database: `postgresql://postgres:${password}@127.0.0.1:${port('postgres')}/sample`,
  }
}

interface Seen {
  readonly complaints: string[]
  readonly hosts: Set<string>
}

/** Everything the pages of a context complain about, and every host they ask, from their workers too. */
function watch(context: BrowserContext): Seen {
  const seen: Seen = { complaints: [], hosts: new Set() }
  context.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') seen.complaints.push(message.text())
  })
  context.on('weberror', (error) => seen.complaints.push(String(error.error())))
  context.on('request', (request) => {
    const url = new URL(request.url())
    if (url.protocol !== 'data:') seen.hosts.add(url.host)
  })
  return seen
}

/** Replaces what is in an editor of the page. */
async function write(page: Page, editor: string, text: string): Promise<void> {
  await page.locator(`${editor} .view-lines`).click()
  await page.keyboard.press('ControlOrMeta+A')
  await page.keyboard.press('Delete')
  await page.keyboard.insertText(text)
}

/** The tab is named after the operation once the page has read it. */
async function writeQuery(page: Page, name: string, query: string): Promise<void> {
  await write(page, '.graphiql-query-editor', query)
  await page.locator('.graphiql-tab', { hasText: name }).waitFor()
}

async function openPlayground(context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage()
  await page.goto(url)
  await page.locator('.graphiql-query-editor .view-lines').waitFor()
  return page
}

const execute = (page: Page) => page.getByRole('button', { name: /execute query/i }).click()
const answered = (page: Page, text: string) => page.locator('.graphiql-response', { hasText: text }).waitFor()

async function withBrowser(t: Test, browser: Browser, { rest, graphql, database }: Platform): Promise<void> {
  const allowed = [new URL(rest).host, new URL(graphql).host]
  mkdirSync(screenshots, { recursive: true })
  const places = [
    { name: 'at / of the REST port', url: `${rest}/`, shot: 'rest-port' },
    { name: 'at /graphql of the GraphQL port', url: `${graphql}/graphql`, shot: 'graphql-port' },
    { name: 'under the name localhost', url: `${rest.replace('127.0.0.1', 'localhost')}/`, shot: 'localhost' },
  ]
  for (const { name, url, shot } of places) {
    await t.test(`the playground ${name} runs queries, sends headers and shows changes as they happen`, async (t) => {
      const context = await browser.newContext()
      const seen = watch(context)
      const page = await openPlayground(context, url)

      await t.test('the example asks the first table', async (t) => {
        await execute(page)
        await answered(page, 'Bruno')
        t.match(await page.locator('.graphiql-response').textContent(), /publicActor/)
      })

      await t.test('a query with a header of the headers editor', async (t) => {
        await page.getByRole('button', { name: 'Headers', exact: true }).click()
        await write(page, '[aria-label="Headers"] .graphiql-editor:not(.hidden)', '{ "X-Department": "cinema" }')
        await writeQuery(page, 'GenreByKey', 'query GenreByKey { publicGenre(where: { id: { eq: 3 } }) { name } }')
        const sent = page.waitForRequest((request) => request.headers()['x-department'] === 'cinema')
        await execute(page)
        t.equal(new URL((await sent).url()).pathname, '/graphql')
        await answered(page, 'Comedy')
      })

      await t.test('a subscription', async (t) => {
        await writeQuery(page, 'NewGenres', 'subscription NewGenres { publicGenreChanges { operation data { name } } }')
        const streaming = page.waitForResponse((response) =>
          /text\/event-stream/.test(response.headers()['content-type'] ?? ''),
        )
        await execute(page)
        t.equal((await streaming).status(), 200)
        await insertGenre(database, `Heist, ${shot}`)
        await answered(page, `Heist, ${shot}`)
        t.match(await page.locator('.graphiql-response').textContent(), /INSERT/)
        await page.screenshot({ path: join(screenshots, `playground-${shot}.png`) })
      })

      t.same(seen.complaints, [], 'nothing on the console')
      t.same(
        [...seen.hosts].filter((host) => !allowed.includes(host.replace('localhost', '127.0.0.1'))),
        [],
        'no request leaves',
      )
      await context.close()
    })
  }

  await t.test('the playground leads to the docs of the REST API, which need nothing from elsewhere', async (t) => {
    const context = await browser.newContext()
    const seen = watch(context)
    const page = await openPlayground(context, `${rest}/`)
    await page.getByRole('link', { name: 'REST API' }).click()
    await page.locator('.opblock-tag', { hasText: 'film' }).first().waitFor()
    t.equal(page.url(), `${rest}/docs`)
    await page.screenshot({ path: join(screenshots, 'rest-docs.png') })
    t.same(seen.complaints, [])
    t.same(
      [...seen.hosts].filter((host) => !allowed.includes(host)),
      [],
    )
    await context.close()
  })

  await t.test('a page from elsewhere gets no answer', async (t) => {
    for (const [origin, allowed] of [
      ['https://example.org', null],
      [rest, rest],
    ] as const) {
      const { headers } = await fetch(`${graphql}/graphql?query={__typename}`, { headers: { Origin: origin } })
      t.equal(headers.get('access-control-allow-origin'), allowed)
    }
  })
}

async function insertGenre(database: string, name: string): Promise<void> {
  const client = new Client({ connectionString: database })
  await client.connect()
  await client.query('insert into genre (name) values ($1)', [name])
  await client.end()
}

t.test(
  'pages in a real browser',
  executablePath === undefined ? { skip: 'there is no Chromium on PATH' } : {},
  async (t) => {
    const platform = await startPlatform(t)
    const root = process.getuid?.() === 0
    const browser = await chromium.launch({ executablePath: executablePath!, args: root ? ['--no-sandbox'] : [] })
    t.teardown(() => browser.close())
    await withBrowser(t, browser, platform)
  },
)
