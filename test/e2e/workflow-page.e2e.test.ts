import { chromium } from 'playwright-core'
import t from 'tap'
import { lookForChromium } from '../../ops/local/chromium.ts'
import { environment } from '../../schemas/config/environment.ts'
import { workflowStage } from '../workflows/stage.ts'

const executablePath = lookForChromium(environment().PATH ?? '')

const gated = `name: gated
tasks:
  - name: ask
    type: core.approval
    properties: { message: Shall we go on? }
  - name: last
    type: util.log
    properties: { message: 'on we go' }
`

t.test(
  'a flow is written, executed, watched, approved and repeated in a browser',
  {
    skip: executablePath === undefined ? 'no Chromium on PATH' : false,
  },
  async (t) => {
    const { url, save, execute, ask } = await workflowStage(t)
    const browser = await chromium.launch({ executablePath: executablePath!, args: ['--no-sandbox', '--disable-gpu'] })
    t.teardown(() => browser.close())
    const page = await browser.newPage()
    page.setDefaultTimeout(15_000)
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
    await shown('#view', 'Execute a flow, and it is here')
    await page.click('#views >> text=Flows')
    await page.click('text=New flow')
    await page.fill('#yaml', 'name: broken\ntasks:\n  - name: greet\n    type: util.lgo\n')
    await shown('#mistakes', /^4:\d+ .*util\.lgo/)
    const written = `name: hello
inputs:
  who: { type: string, default: world }
tasks:
  - name: greet
    type: util.log
    properties: { message: 'Hello {{ inputs.who }}' }
outputs:
  said: '{{ outputs.greet.message }}'
`
    await page.fill('#yaml', written)
    await page.waitForFunction(() => (document.querySelector('#mistakes') as HTMLElement).hidden)
    await page.click('role=button[name=Save]')
    await shown('h1', 'default/hello, revision 1')
    await page.fill('#inputs', '{"who": "<i>Ada</i>"}')
    await page.click('role=button[name=Execute]')
    await shown('h1', 'SUCCESS')
    await shown('#outputs', '"said": "Hello <i>Ada</i>"')
    await shown('#lines', 'greet: Hello <i>Ada</i>')
    t.equal(await page.locator('#view i').count(), 0, 'what a flow says is text')
    const [{ id: first }] = (await ask('GET', '/executions')).json
    await page.click('role=button[name=replay]')
    await page.waitForFunction((before) => !location.hash.endsWith(before), first)
    await shown('h1', 'SUCCESS')

    await page.click('#views >> text=Executions')
    await page.waitForFunction(() => document.querySelectorAll('#view tbody tr').length === 2)
    await page.selectOption('select', 'FAILED')
    await shown('#view', 'Execute a flow, and it is here')

    const waiting = await execute(await save(gated))
    await page.click('#views >> text=Approvals')
    await shown('#view tbody tr', 'Shall we go on?')
    await page.fill('role=textbox[name=Comment]', 'yes')
    await page.click('role=button[name=approve]')
    await shown('#view tbody tr', /APPROVED by anonymous: yes/)
    await page.goto(`${url}/#/executions/${waiting}`)
    await shown('h1', 'SUCCESS')
    t.equal(await page.locator('#view tbody tr').count(), 2)

    await page.click('#views >> text=Plugins')
    await page.fill('role=searchbox[name=Find]', 'util.log')
    await page.waitForFunction(() => document.querySelectorAll('.plugin').length === 1)
    await page.click('.plugin summary')
    await shown('.plugin table', 'message *')
    await page.click('role=button[name="Make it a flow"]')
    await shown('h1', 'revision 1')
    await page.click('role=button[name=Delete]')
    await shown('#view tbody tr', 'default/hello')
    t.same([...hosts], [new URL(url).host], 'nothing comes from elsewhere')
    t.same(complaints, [])
  },
)
