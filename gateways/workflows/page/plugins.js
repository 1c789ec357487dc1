import { done, element, get, tell } from '/console/console.js'
import { api, table } from '/console/executions.js'

/** The catalogue; with an id, that plugin opened. */
export async function plugins(place, signal, id) {
  const [all, categories] = await Promise.all([get(`${api}/plugins`), get(`${api}/plugins/categories`)])
  if (signal.aborted) return
  const search = element('input', { type: 'search', placeholder: 'Find', ariaLabel: 'Find' })
  search.value = id ?? ''
  const category = element('select', { ariaLabel: 'Category' }, element('option', { value: '' }, `all ${all.length}`))
  category.append(...categories.map(({ name, count }) => element('option', { value: name }, `${name} (${count})`)))
  const found = element('div')
  place.append(
    element('div', { className: 'row' }, element('h1', { className: 'rest' }, 'Plugins'), search, category),
    found,
  )
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/)
    const matching = all.filter((plugin) => {
      const text = `${plugin.id} ${plugin.name} ${plugin.description}`.toLowerCase()
      return (category.value === '' || plugin.category === category.value) && words.every((word) => text.includes(word))
    })
    found.replaceChildren(...matching.map((plugin) => card(plugin, plugin.id === id)))
  }
  search.addEventListener('input', show)
  category.addEventListener('change', show)
  show()
}

function card({ id, name, category, description, needs, inputSchema, example }, open) {
  const use = element('button', { type: 'button' }, 'Make it a flow')
  use.addEventListener('click', async () => {
    const { id: flowId } = await done('POST', `${api}/flows`, example, { 'Content-Type': 'application/yaml' })
    tell('The example is a flow now')
    location.hash = `#/flows/${flowId}`
  })
  const more = element(
    'details',
    { open },
    element('summary', {}, 'Properties and example'),
    properties(inputSchema),
    element('pre', {}, example),
    element('div', { className: 'row' }, use),
  )
  return element(
    'div',
    { className: 'plugin' },
    element(
      'div',
      { className: 'row' },
      element('code', {}, id),
      element('strong', {}, name),
      element('span', { className: 'quiet' }, category),
    ),
    element('div', {}, description),
    needs ? element('div', { className: 'quiet' }, `Needs: ${needs}`) : '',
    more,
  )
}

function properties({ properties = {}, required = [] }) {
  const rows = Object.entries(properties).map(([name, schema]) => [
    element('code', {}, required.includes(name) ? `${name} *` : name),
    typeOf(schema),
    schema.description ?? '',
    schema.default === null ? '' : JSON.stringify(schema.default),
  ])
  return rows.length === 0
    ? element('p', { className: 'quiet' }, 'It has no properties.')
    : table(['Property', 'Type', 'What', 'Default'], rows)
}

/** `null` stands for what is not given. */
function typeOf({ type, enum: values, anyOf }) {
  const others = (anyOf ?? []).filter((each) => each.type !== 'null')
  if (others.length === 1) return typeOf(others[0])
  return String(type ?? (anyOf ? 'one of several' : values ? 'text' : 'any'))
}
