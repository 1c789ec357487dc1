import { ago, done, element, follow, get, lasting, tell } from '/console/console.js'

export const api = '/api/v1'
const statuses = ['QUEUED', 'RUNNING', 'PAUSED', 'SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT']
const ended = ['SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT']
const everyMs = 2000

export const statusText = (status) => element('span', { className: `status-${status}` }, status)

export function table(heads, rows) {
  const head = element('tr', {}, ...heads.map((text) => element('th', {}, text)))
  const body = rows.map((cells) => element('tr', {}, ...cells.map((cell) => element('td', {}, cell))))
  return element('table', {}, element('thead', {}, head), element('tbody', {}, ...body))
}

/** Again and again, while the page is looked at, until the signal. */
export async function repeatedly(signal, work) {
  while (!signal.aborted) {
    if (!document.hidden && (await work()) === 'enough') return
    await new Promise((again) => setTimeout(again, everyMs))
  }
}

export async function executions(place, signal) {
  const status = element('select', { ariaLabel: 'Status' }, element('option', { value: '' }, 'any status'))
  status.append(...statuses.map((name) => element('option', {}, name)))
  const search = element('input', { type: 'search', placeholder: 'flow, id or error', ariaLabel: 'Find' })
  const count = element('span', { className: 'quiet' })
  const found = element('div')
  const bar = element(
    'div',
    { className: 'row' },
    element('h1', { className: 'rest' }, 'Executions'),
    count,
    status,
    search,
  )
  place.append(bar, found)
  const refresh = async () => {
    const query = new URLSearchParams({ limit: '50' })
    if (status.value !== '') query.set('status', status.value)
    if (search.value !== '') query.set('q', search.value)
    const rows = await get(`${api}/executions?${query}`)
    if (signal.aborted) return
    count.textContent = `${rows.length} newest`
    found.replaceChildren(
      rows.length === 0 ? element('p', { className: 'quiet' }, 'None. Execute a flow, and it is here.') : listed(rows),
    )
  }
  status.addEventListener('change', refresh)
  search.addEventListener('input', refresh)
  await repeatedly(signal, refresh)
}

export function listed(rows) {
  return table(
    ['Execution', 'Flow', 'Status', 'Tasks', 'Started', 'Took'],
    rows.map((row) => [
      element('a', { href: `#/executions/${row.id}`, className: 'mono' }, row.id.slice(0, 13)),
      element('a', { href: `#/flows/${row.flowId}` }, `${row.namespace}/${row.flowName}`),
      statusText(row.status),
      `${row.tasksExecuted}/${row.tasksTotal}`,
      ago(row.startedAt ?? row.createdAt),
      row.durationMs === null ? '' : lasting(row.durationMs),
    ]),
  )
}

export async function execution(place, signal, id) {
  const head = element('div')
  const runs = element('div')
  const lines = element('pre', { id: 'lines' })
  const outputs = element('pre', { id: 'outputs', hidden: true })
  const log = element(
    'h2',
    {},
    'Log ',
    element('a', { href: `${api}/executions/${id}/logs?format=text`, className: 'quiet' }, 'as text'),
  )
  place.append(head, runs, outputs, log, lines)
  follow(`${api}/executions/${id}/logs`, (line) => line && addLine(lines, line), signal).catch(() => undefined)
  await repeatedly(signal, async () => {
    const told = await get(`${api}/executions/${id}`)
    if (signal.aborted) return 'enough'
    head.replaceChildren(...heading(told.execution), ...buttons(told.execution))
    runs.replaceChildren(taskTable(told))
    outputs.hidden = told.execution.outputs === null
    if (!outputs.hidden) outputs.textContent = JSON.stringify(JSON.parse(told.execution.outputs), null, 2)
    return ended.includes(told.execution.status) ? 'enough' : undefined
  })
}

function addLine(lines, { timestamp, level, taskName, message }) {
  const text = `${timestamp.slice(11, 23)} ${level.padEnd(5)} ${taskName ?? ''}: ${message}\n`
  lines.append(element('span', { className: `line-${level}` }, text))
}

function heading(execution) {
  const facts = {
    Flow: element(
      'a',
      { href: `#/flows/${execution.flowId}` },
      `${execution.namespace}/${execution.flowName}, revision ${execution.revision}`,
    ),
    Started: `${ago(execution.startedAt ?? execution.createdAt)} by ${execution.trigger.type ?? 'manual'} (${execution.actor})`,
    Took: execution.durationMs === null ? 'it goes on' : lasting(execution.durationMs),
    Inputs: element('code', {}, JSON.stringify(execution.inputs)),
    ...(execution.error !== null && { Error: element('span', { className: 'bad' }, execution.error) }),
  }
  const list = Object.entries(facts).flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)])
  return [element('h1', {}, `Execution ${execution.id} `, statusText(execution.status)), element('dl', {}, ...list)]
}

function buttons({ id, status }) {
  const verbs = ended.includes(status)
    ? [...(status === 'SUCCESS' ? [] : ['retry']), 'restart', 'replay']
    : status === 'PAUSED'
      ? ['resume', 'cancel', 'kill']
      : ['pause', 'cancel', 'kill']
  const made = verbs.map((verb) => {
    const button = element('button', { type: 'button' }, verb)
    button.addEventListener('click', async () => {
      const told = await done('POST', `${api}/executions/${id}/${verb}`)
      tell(`${verb}: ${told.status}`)
      if (told.executionId !== id) location.hash = `#/executions/${told.executionId}`
    })
    return button
  })
  return [element('div', { className: 'row' }, ...made)]
}

/** Each task on the same axis of time. */
function taskTable({ execution, tasks }) {
  const begin = Date.parse(execution.startedAt ?? execution.createdAt)
  const end = execution.finishedAt === null ? Date.now() : Date.parse(execution.finishedAt)
  const span = Math.max(1, end - begin)
  const part = (iso, otherwise) =>
    iso === null ? otherwise : Math.min(100, Math.max(0, ((Date.parse(iso) - begin) / span) * 100))
  const rows = tasks.slice(0, 500).map((task) => {
    const from = part(task.startedAt, 0)
    const width = task.startedAt === null ? 0 : Math.max(0.8, part(task.finishedAt, 100) - from)
    const what = task.outputs ?? task.error ?? ''
    return [
      element('span', { title: task.taskType }, task.taskName),
      statusText(task.status),
      String(task.attempt),
      bar(from, width),
      task.durationMs === null ? '' : lasting(task.durationMs),
      what === '' ? '' : element('details', {}, element('summary', {}, what.slice(0, 60)), element('pre', {}, what)),
    ]
  })
  return table(['Task', 'Status', 'Attempt', 'When', 'Took', 'Outputs or error'], rows)
}

/** A drawing, because the page's policy allows no inline style. */
function bar(from, width) {
  const namespace = 'http://www.w3.org/2000/svg'
  const drawing = document.createElementNS(namespace, 'svg')
  drawing.setAttribute('viewBox', '0 0 100 10')
  drawing.setAttribute('preserveAspectRatio', 'none')
  const rectangle = document.createElementNS(namespace, 'rect')
  for (const [name, value] of Object.entries({ x: from, y: 0, width, height: 10 }))
    rectangle.setAttribute(name, String(value))
  drawing.append(rectangle)
  return element('div', { className: 'track' }, drawing)
}
