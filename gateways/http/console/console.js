/** What the pages of the services share. Runs in the browser, as a module. */

export const one = (selector, root = document) => root.querySelector(selector)

/** An element with properties and children; texts become text nodes, never markup. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value
    else made.setAttribute(name, value)
  }
  made.append(...children.filter((child) => child !== null))
  return made
}

const field = one('#authorization')
if (field !== null) {
  field.value = sessionStorage.getItem('authorization') ?? ''
  field.addEventListener('change', () => {
    sessionStorage.setItem('authorization', field.value)
    location.reload()
  })
}

/** A bare token is a bearer's. */
function authorization() {
  const text = field?.value.trim() ?? ''
  if (text === '') return {}
  return { Authorization: /\s/.test(text) ? text : `Bearer ${text}` }
}

/** Asks this server. Answers `{ok, status, headers, text, json, ms}`; a body that is no text is sent as JSON. */
export async function ask(method, path, body, headers = {}) {
  const begun = performance.now()
  const json = body !== undefined && typeof body !== 'string'
  const response = await fetch(path, {
    method,
    headers: {
      Accept: 'application/json',
      ...(json && { 'Content-Type': 'application/json' }),
      ...authorization(),
      ...headers,
    },
    ...(body !== undefined && { body: json ? JSON.stringify(body) : body }),
  })
  const text = await response.text()
  const told = {
    ok: response.ok,
    status: response.status,
    headers: response.headers,
    text,
    ms: performance.now() - begun,
  }
  return { ...told, json: parsed(text) }
}

/** As {@link ask}, and gives the JSON; a refusal is told on the page and thrown. */
export async function get(path) {
  return await done('GET', path)
}

export async function done(method, path, body, headers) {
  const { ok, status, json, text } = await ask(method, path, body, headers)
  if (ok) return json
  const message = reasonOf(json) ?? (text.slice(0, 300) || `It was answered with ${status}`)
  tell(status === 401 ? `${message}. Put a token into the field at the top.` : message, 'error')
  throw new Error(message)
}

/** Services answer `{error}` or `{error: {message}}` or `{message}`. */
export function reasonOf(json) {
  if (json === null || typeof json !== 'object') return null
  const { error, message } = json
  return typeof error === 'string' ? error : (error?.message ?? message ?? null)
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Server-sent events with the token of the page, until the signal or the server ends them. `heard` gets the JSON of each. */
export async function follow(path, heard, signal) {
  const response = await fetch(path, { headers: { Accept: 'text/event-stream', ...authorization() }, signal })
  if (!response.ok) return
  let waiting = ''
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const parts = (waiting + text).split('\n\n')
    waiting = parts.pop()
    for (const part of parts) {
      const data = part.split('\n').flatMap((line) => (line.startsWith('data:') ? [line.slice(5).trimStart()] : []))
      const event = part
        .split('\n')
        .find((line) => line.startsWith('event:'))
        ?.slice(6)
        .trim()
      if (data.length > 0) heard(parsed(data.join('\n')), event)
    }
  }
}

let forgetting
/** A line at the foot of the page for some seconds. */
export function tell(text, kind = 'note') {
  const line = one('#told')
  line.textContent = text
  line.dataset.kind = kind
  line.hidden = false
  clearTimeout(forgetting)
  forgetting = setTimeout(() => {
    line.hidden = true
  }, 8000)
}

/** `3 minutes ago`, of an ISO time. */
export function ago(iso) {
  if (iso === undefined || iso === null) return 'never'
  const seconds = (new Date(iso).getTime() - Date.now()) / 1000
  const words = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
  const units = [['second', 60], ['minute', 60], ['hour', 24], ['day', Number.POSITIVE_INFINITY]] // biome-ignore format: one unit a pair
  let value = seconds
  for (const [unit, most] of units) {
    if (Math.abs(value) < most) return words.format(Math.round(value), unit)
    value /= most
  }
}

/** `1.2 s`, `340 ms` or `2 min 5 s`. */
export function lasting(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`
}

/** Shows one of the panels that the buttons of a `[role=tablist]` name, and says which to `shown`. */
export function tabs(list, shown) {
  const buttons = [...list.querySelectorAll('[role=tab]')]
  const show = (name) => {
    for (const button of buttons) {
      const chosen = button.dataset.tab === name
      button.setAttribute('aria-selected', String(chosen))
      one(`#${button.getAttribute('aria-controls')}`).hidden = !chosen
    }
    shown(name)
  }
  list.addEventListener('click', ({ target }) => {
    if (target.dataset.tab !== undefined) show(target.dataset.tab)
  })
  return show
}

/** Tab writes two spaces; Ctrl-Enter or Cmd-Enter runs the action. */
export function codeField(area, action) {
  area.addEventListener('keydown', (event) => {
    if (event.key === 'Tab' && !event.shiftKey && !event.altKey && !event.ctrlKey) {
      event.preventDefault()
      area.setRangeText('  ', area.selectionStart, area.selectionEnd, 'end')
      area.dispatchEvent(new Event('input'))
    }
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) action()
  })
}
