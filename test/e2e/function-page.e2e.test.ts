import { setTimeout as delay } from 'node:timers/promises'
import { chromium } from 'playwright-core'
import t from 'tap'
import { lookForChromium } from '../../ops/local/chromium.ts'
import { environment } from '../../schemas/config/environment.ts'
import { platform } from '../functions/platform.ts'

const executablePath = lookForChromium(environment().PATH ?? '')

t.test(
  'a function is written, deployed, called, watched and taken back in a browser',
  {
    skip: executablePath === undefined ? 'no Chromium on PATH' : false,
  },
  async (t) => {
    const place = await platform(t)
    const { url, call } = await place.gateway()
    await place.worker()
    const browser = await chromium.launch({ executablePath: executablePath!, args: ['--no-sandbox', '--disable-gpu'] })
    t.teardown(() => browser.close())
    const page = await browser.newPage()
    const complaints: string[] = []
    const hosts = new Set<string>()
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
    })
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('request', (request) => {
      if (!request.url().startsWith('data:')) hosts.add(new URL(request.url()).host)
    })
    page.on('dialog', (dialog) => void dialog.accept())
    const shown = (selector: string, text: string | RegExp) =>
      page.locator(selector, { hasText: text }).first().waitFor()

    await page.goto(url)
    await shown('#capacity', '0 of 500')
    await page.fill('#id', 'greet')
    await page.click('text=Deploy')
    await shown('#scripts a', 'greet')
    await shown('#told', 'greet is deployed')

    await page.fill('#body', '{ "name": "Ada" }')
    await page.click('text=Invoke')
    await shown('#answer', '"hello": "Ada"')
    t.match(await page.textContent('#outcome'), /^200 in/)
    await shown('#scripts a', '1 call, last')

    await page.click('role=tab[name=Logs]')
    await shown('#lines', 'called by POST')
    await call('POST', '/invoke/greet', { name: 'Bob' })
    await page.waitForFunction(() => (document.querySelectorAll('#lines span').length ?? 0) === 2)

    await page.click('role=tab[name=Variables]')
    await page.fill('#variables', 'KIND=oolong=black')
    await page.fill('#secrets', 'TOKEN=s3cret-of-mine')
    await page.click('text=Save variables')
    await page.waitForFunction(() => (document.querySelector('#secrets') as HTMLTextAreaElement).value === 'TOKEN=')
    t.match((await call('GET', '/scripts/greet/env')).body, { variables: { KIND: 'oolong=black' }, secrets: ['TOKEN'] })

    await page.fill('#code', 'function handler( {')
    await page.click('text=Deploy')
    await shown('#mistake', /line 1, column/)
    await page.fill('#code', 'export const handler = (_, { env }) => `<b>${env.KIND}</b> ${env.TOKEN}`')
    await page.click('text=Deploy')
    await page.click('role=tab[name="Try it"]')
    await page.check('#async')
    await page.click('text=Invoke')
    await shown('#answer', '<b>oolong=black</b> s3cret-of-mine')
    t.equal(await page.locator('#answer b').count(), 0, 'what a function answers is text')

    // Who is quicker than the answer does not lose what he writes.
    await page.route('**/scripts/greet/triggers', (route) => delay(500).then(() => route.continue()))
    const listed = page.waitForResponse('**/scripts/greet/triggers')
    await page.click('role=tab[name=Triggers]')
    await page.fill('#trigger-list', '[{"name": "tick", "cron": "not a time"}]')
    await (await listed).finished()
    await delay(100)
    await page.click('text=Save triggers')
    await shown('#told[data-kind=error]', /cron/)

    await page.click('role=tab[name=Revisions]')
    await shown('#revision-list tr', 'answers now')
    await page.click('text=Make it the function')
    await page.waitForFunction(() =>
      (document.querySelector('#code') as HTMLTextAreaElement).value.includes('hello: name'),
    )
    t.same((await call('POST', '/invoke/greet', { name: 'Eve' })).body, { hello: 'Eve' })

    await page.reload()
    await page.waitForFunction(() =>
      (document.querySelector('#code') as HTMLTextAreaElement).value.includes('hello: name'),
    )
    await page.click('text=Delete')
    await shown('#capacity', '0 of 500')
    t.same((await call('GET', '/scripts')).body, { scripts: [] })
    t.same([...hosts], [new URL(url).host], 'nothing comes from elsewhere')
    // A browser tells refused requests to the console by itself.
    t.same(
      complaints.filter((line) => !/status of 400/.test(line)),
      [],
    )
  },
)

t.test(
  'where tokens are asked for, the page says so and carries the one it is given',
  {
    skip: executablePath === undefined ? 'no Chromium on PATH' : false,
  },
  async (t) => {
    const { SignJWT } = await import('jose')
    const secret = 'a secret of at least thirty-two bytes'
    const place = await platform(t)
    const { url, call } = await place.gateway({ jwt: { secret } })
    await place.worker()
    for (const [method, path] of [
      ['POST', '/deploy'],
      ['DELETE', '/delete/f'],
      ['GET', '/scripts'],
      ['GET', '/stats'],
      ['GET', '/scripts/f/revisions'],
      ['GET', '/scripts/f/revisions/1'],
      ['POST', '/scripts/f/rollback'],
      ['GET', '/scripts/f/env'],
      ['PUT', '/scripts/f/env'],
      ['GET', '/scripts/f/triggers'],
      ['PUT', '/scripts/f/triggers'],
      ['GET', '/scripts/f/logs'],
    ] as const) {
      const bad = { Authorization: 'Bearer not.a.token' }
      t.equal((await call(method, path, undefined)).status, 401, `${method} ${path} without a token`)
      t.equal((await call(method, path, undefined, bad)).status, 401, `${method} ${path} with a wrong one`)
    }
    const browser = await chromium.launch({ executablePath: executablePath!, args: ['--no-sandbox', '--disable-gpu'] })
    t.teardown(() => browser.close())
    const page = await browser.newPage()
    await page.goto(url)
    await page.locator('#told', { hasText: 'Put a token into the field' }).waitFor()
    const token = await new SignJWT({})
      .setProtectedHeader({ alg: 'HS256' })
      .setSubject('ada')
      .setExpirationTime('5m')
      .sign(Buffer.from(secret))
    await page.fill('#authorization', token)
    await page.locator('#authorization').blur()
    await page.locator('#capacity', { hasText: '0 of 500' }).waitFor()
    await page.fill('#id', 'greet')
    await page.click('text=Deploy')
    await page.locator('#scripts a', { hasText: 'greet' }).waitFor()
    t.match((await call('GET', '/scripts', undefined, { Authorization: `Bearer ${token}` })).body, {
      scripts: [{ id: 'greet' }],
    })
  },
)
