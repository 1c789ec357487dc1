import { ago, ask, codeField, done, element, get, reasonOf, tell } from '/console/console.js'
import { api, listed, repeatedly, table } from '/console/executions.js'

const example = `name: hello
inputs:
  who: { type: string, default: world }
tasks:
  - name: greet
    type: util.log
    properties:
      message: 'Hello {{ inputs.who }}'
outputs:
  said: '{{ outputs.greet.message }}'
`
const yaml = { 'Content-Type': 'application/yaml' }

export async function flows(place, signal) {
  const search = element('input', { type: 'search', placeholder: 'Find', ariaLabel: 'Find' })
  const made = element('a', { href: '#/flows/new' }, 'New flow')
  const found = element('div')
  place.append(element('div', { className: 'row' }, element('h1', { className: 'rest' }, 'Flows'), search, made), found)
  const refresh = async () => {
    const rows = await get(
      `${api}/flows?${new URLSearchParams({ limit: '100', ...(search.value !== '' && { q: search.value }) })}`,
    )
    if (signal.aborted) return
    const cells = rows.map(({ id, namespace, name, revision, enabled, updatedAt }) => [
      element('a', { href: `#/flows/${id}` }, `${namespace}/${name}`),
      String(revision),
      enabled ? 'enabled' : 'disabled',
      ago(updatedAt),
    ])
    found.replaceChildren(
      cells.length === 0
        ? element('p', { className: 'quiet' }, 'None yet.')
        : table(['Flow', 'Revision', '', 'Changed'], cells),
    )
  }
  search.addEventListener('input', refresh)
  await repeatedly(signal, refresh)
}

export async function flow(place, signal, id) {
  const saved = id === 'new' ? null : await get(`${api}/flows/${id}`)
  if (signal.aborted) return
  const code = element('textarea', { id: 'yaml', rows: 20, spellcheck: false, ariaLabel: 'The flow in YAML' })
  code.value = saved?.yamlContent ?? example
  const mistakes = element('pre', { id: 'mistakes', className: 'bad', hidden: true })
  const save = element('button', { type: 'button', className: 'main' }, 'Save')
  const title = saved === null ? 'New flow' : `${saved.namespace}/${saved.name}, revision ${saved.revision}`
  place.append(element('div', { className: 'row' }, element('h1', { className: 'rest' }, title), save), code, mistakes)
  const store = async () => {
    const told = await ask(
      saved === null ? 'POST' : 'PUT',
      `${api}/flows${saved === null ? '' : `/${id}`}`,
      code.value,
      yaml,
    )
    if (!told.ok) return tell(reasonOf(told.json) ?? 'It could not be saved', 'error')
    tell('Saved')
    if (saved === null) location.hash = `#/flows/${told.json.id}`
    else dispatchEvent(new Event('hashchange'))
  }
  save.addEventListener('click', store)
  codeField(code, store)
  checkAsWritten(code, mistakes, signal)
  if (saved !== null) await running(place, signal, saved)
}

/** Every mistake with its line and column, a moment after the last key. */
function checkAsWritten(code, mistakes, signal) {
  let waiting
  const check = async () => {
    const { json } = await ask('POST', `${api}/flows/validate`, code.value, yaml)
    if (signal.aborted || json?.errors === undefined) return
    mistakes.hidden = json.valid
    mistakes.textContent = json.errors
      .map(({ line, column, path, message }) => `${line}:${column} ${path} ${message}`)
      .join('\n')
  }
  code.addEventListener('input', () => {
    clearTimeout(waiting)
    waiting = setTimeout(check, 300)
  })
}

async function running(place, signal, { id, enabled }) {
  const inputs = element('textarea', { id: 'inputs', rows: 3, spellcheck: false, ariaLabel: 'Inputs as JSON' })
  inputs.value = '{}'
  const run = element('button', { type: 'button', className: 'main', disabled: !enabled }, 'Execute')
  const toggle = element('button', { type: 'button' }, enabled ? 'Disable' : 'Enable')
  const remove = element('button', { type: 'button', className: 'bad' }, 'Delete')
  const recent = element('div')
  place.append(
    element('h2', {}, 'Execute it with these inputs'),
    inputs,
    element('div', { className: 'row' }, run, toggle, remove),
    recent,
  )
  run.addEventListener('click', async () => {
    let given
    try {
      given = JSON.parse(inputs.value)
    } catch (error) {
      return tell(`The inputs are no JSON: ${error.message}`, 'error')
    }
    const { executionId } = await done('POST', `${api}/flows/${id}/execute`, { inputs: given })
    location.hash = `#/executions/${executionId}`
  })
  toggle.addEventListener('click', async () => {
    await done('POST', `${api}/flows/${id}/${enabled ? 'disable' : 'enable'}`)
    dispatchEvent(new Event('hashchange'))
  })
  remove.addEventListener('click', async () => {
    if (!confirm('Delete the flow? Its executions stay.')) return
    await done('DELETE', `${api}/flows/${id}`)
    location.hash = '#/flows'
  })
  await repeatedly(signal, async () => {
    const rows = await get(`${api}/executions?${new URLSearchParams({ flowId: id, limit: '20' })}`)
    if (!signal.aborted && rows.length > 0) recent.replaceChildren(element('h2', {}, 'Its executions'), listed(rows))
  })
}
