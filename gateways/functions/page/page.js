import {
  ago,
  ask,
  codeField,
  done,
  element,
  follow,
  get,
  lasting,
  one,
  reasonOf,
  tabs,
  tell,
} from '/console/console.js'

const example = `export function handler({ name = 'world' }, context) {
  console.log('called by', context.method)
  return { hello: name }
}
`
const maxLines = 500

let scripts = []
/** Of the function that is shown; null while a new one is written. */
let current = null
let tab = 'try'
let following = new AbortController()

const path = (...parts) => `/${parts.map(encodeURIComponent).join('/')}`
const pretty = (json) => JSON.stringify(json, null, 2)

async function refresh() {
  const stats = await get('/stats')
  scripts = stats.scripts
  one('#capacity').textContent = `${stats.totalScripts} of ${stats.maxScripts}`
  showList()
}

function showList() {
  const wanted = one('#search').value.toLowerCase()
  const items = scripts
    .filter(({ id }) => id.toLowerCase().includes(wanted))
    .map(({ id, invocations, lastInvoked }) => {
      const told = `${invocations} call${invocations === 1 ? '' : 's'}, last ${ago(lastInvoked)}`
      const link = element(
        'a',
        { href: `#${encodeURIComponent(id)}` },
        id,
        element('div', { className: 'quiet' }, told),
      )
      link.setAttribute('aria-current', String(id === current))
      return element('li', {}, link)
    })
  one('#scripts').replaceChildren(...items)
}

async function open() {
  const id = decodeURIComponent(location.hash.slice(1))
  current = id === '' ? null : id
  one('#mistake').hidden = true
  one('#answer').hidden = true
  one('#outcome').textContent = ''
  one('#delete').disabled = current === null
  one('#id').readOnly = current !== null
  one('#id').value = id
  showList()
  if (current === null) {
    one('#code').value = example
    one('#idempotent').checked = false
  } else {
    const { revisions } = await get(path('scripts', current, 'revisions'))
    const { code, idempotent = false } = await get(path('scripts', current, 'revisions', String(revisions[0].revision)))
    one('#code').value = code
    one('#idempotent').checked = idempotent
  }
  await showTab()
}

/** What the panel shows is asked for when it is opened. */
async function showTab() {
  following.abort()
  following = new AbortController()
  if (current === null) return
  if (tab === 'logs') await showLogs()
  if (tab === 'env') await showEnv()
  if (tab === 'triggers') await showTriggers()
  if (tab === 'revisions') await showRevisions()
}

async function showLogs() {
  const { signal } = following
  const lines = one('#lines')
  const add = ({ timestamp, level, message, invocationId }) => {
    const stays = lines.scrollTop + lines.clientHeight < lines.scrollHeight - 40
    const text = `${timestamp.slice(11, 23)} ${level.padEnd(5)} ${message}\n`
    lines.append(element('span', { className: `line-${level}`, title: `invocation ${invocationId}` }, text))
    while (lines.childNodes.length > maxLines) lines.firstChild.remove()
    if (!stays) lines.scrollTop = lines.scrollHeight
  }
  const { logs } = await get(`${path('scripts', current, 'logs')}?limit=200`)
  if (signal.aborted) return
  lines.replaceChildren()
  for (const line of logs) add(line)
  follow(path('scripts', current, 'logs'), (line) => line && add(line), signal).catch(() => undefined)
}

/** What is written into a field before it shows what there is would be lost. */
async function filling(fields, fill) {
  for (const field of fields) field.readOnly = true
  try {
    await fill()
  } finally {
    for (const field of fields) field.readOnly = false
  }
}

async function showTriggers() {
  const list = one('#trigger-list')
  await filling([list], async () => {
    const { triggers } = await get(path('scripts', current, 'triggers'))
    list.value = pretty(triggers.map(({ nextAt, ...trigger }) => trigger))
  })
}

async function showEnv() {
  const [plain, secret] = [one('#variables'), one('#secrets')]
  await filling([plain, secret], async () => {
    const { variables, secrets } = await get(path('scripts', current, 'env'))
    plain.value = Object.entries(variables)
      .map(([name, value]) => `${name}=${value}`)
      .join('\n')
    secret.value = secrets.map((name) => `${name}=`).join('\n')
  })
}

async function showRevisions() {
  const { revisions } = await get(path('scripts', current, 'revisions'))
  const rows = revisions.map(({ revision, deployedAt, active, rolledBackTo }) => {
    const back = element('button', { type: 'button' }, 'Make it the function')
    back.addEventListener('click', async () => {
      await done('POST', path('scripts', current, 'rollback'), { revision })
      tell(`${current} runs the program of revision ${revision} again`)
      await open()
    })
    const what = rolledBackTo === undefined ? '' : ` (program of ${rolledBackTo})`
    const cells = [`${revision}${what}`, new Date(deployedAt).toLocaleString(), active ? 'answers now' : back]
    return element('tr', {}, ...cells.map((cell) => element('td', {}, cell)))
  })
  one('#revision-list').replaceChildren(...rows)
}

async function deploy() {
  const id = one('#id').value
  const body = { id, code: one('#code').value, ...(one('#idempotent').checked && { idempotent: true }) }
  const { ok, json, headers } = await ask('POST', '/deploy', body)
  const mistake = one('#mistake')
  mistake.hidden = ok
  if (!ok) {
    mistake.textContent = reasonOf(json) ?? 'It could not be deployed'
    return
  }
  const warning = headers.get('warning')
  tell(
    warning === null
      ? `${id} is deployed`
      : `${id} is deployed, but it cannot be called: ${warning.replace(/^199 \w+ /, '')}`,
  )
  await refresh()
  if (id === current) await open()
  else location.hash = encodeURIComponent(id)
}

async function invoke() {
  if (current === null) return tell('Deploy it first', 'error')
  const method = one('#method').value
  const query = one('#query').value.replace(/^\?/, '')
  const withBody = method !== 'GET' && one('#body').value.trim() !== ''
  const headers = {
    ...(withBody && { 'Content-Type': 'application/json' }),
    ...(one('#async').checked && { Prefer: 'respond-async' }),
  }
  const url = path('invoke', current) + (query === '' ? '' : `?${query}`)
  one('#outcome').textContent = 'running'
  const told = await ask(method, url, withBody ? one('#body').value : undefined, headers)
  show(told)
  if (told.status === 202 && told.json?.url !== undefined) await showInvocation(told.json.url)
  await refresh()
}

function show({ ok, status, text, json, ms }) {
  one('#outcome').replaceChildren(
    element('span', { className: ok ? 'good' : 'bad' }, String(status)),
    ` in ${lasting(ms)}`,
  )
  one('#answer').hidden = text === ''
  one('#answer').textContent = json === null ? text : pretty(json)
}

/** Until it is done, a minute at most. */
async function showInvocation(url) {
  for (let attempt = 0; attempt < 120; attempt++) {
    const told = await ask('GET', url)
    show(told)
    if (told.json?.status !== 'pending') return
    await new Promise((again) => setTimeout(again, 500))
  }
}

const pairs = (text) =>
  text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => [line.split('=')[0].trim(), line.slice(line.indexOf('=') + 1)])

async function setEnv() {
  const variables = Object.fromEntries(pairs(one('#variables').value))
  const secrets = Object.fromEntries(
    pairs(one('#secrets').value).map(([name, value]) => [name, value === '' ? null : value]),
  )
  await done('PUT', path('scripts', current, 'env'), { variables, secrets })
  tell('Saved: the next call has them')
  await showEnv()
}

async function setTriggers() {
  let triggers
  try {
    triggers = JSON.parse(one('#trigger-list').value)
  } catch (error) {
    return tell(`That is no JSON: ${error.message}`, 'error')
  }
  await done('PUT', path('scripts', current, 'triggers'), { triggers })
  tell('Saved')
}

async function remove() {
  if (!confirm(`Delete ${current}?`)) return
  await done('DELETE', path('delete', current))
  tell(`${current} is deleted`)
  location.hash = ''
  await refresh()
}

const submitted = (form, action) =>
  one(form).addEventListener('submit', (event) => {
    event.preventDefault()
    action().catch(() => undefined)
  })
const clicked = (button, action) => one(button).addEventListener('click', () => action().catch(() => undefined))

submitted('#deploy', deploy)
submitted('#invoke', invoke)
clicked('#set-env', setEnv)
clicked('#set-triggers', setTriggers)
clicked('#delete', remove)
clicked('#new', async () => {
  location.hash = ''
  one('#id').focus()
})
codeField(one('#code'), () => one('#deploy').requestSubmit())
codeField(one('#body'), () => one('#invoke').requestSubmit())
one('#search').addEventListener('input', showList)
addEventListener('hashchange', () => open().catch(() => undefined))
const choose = tabs(one('[role=tablist]'), (name) => {
  tab = name
  showTab().catch(() => undefined)
})
choose('try')
refresh()
  .then(open)
  .catch(() => undefined)
setInterval(() => document.hidden || refresh().catch(() => undefined), 5000)
