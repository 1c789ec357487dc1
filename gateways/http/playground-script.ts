/**
 * What runs in the browser. The examples of the first two tabs are made from the schema that the endpoint tells; they are only shown where
 * the browser has nothing of an earlier visit.
 */
export const playgroundScript = `'use strict'
const root = document.getElementById('playground')
const { endpoint } = root.dataset
const workers = { graphql: 'graphql', json: 'json' }
self.MonacoEnvironment = {
  globalAPI: false,
  getWorkerUrl: (_, label) => '/playground/' + (workers[label] ?? 'editor') + '.worker.js',
}

const type = 'type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }'

async function ask(query, variables) {
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'application/json' },
    body: JSON.stringify({ query, variables }),
  })
  const { data } = await response.json()
  return data
}

const named = (type) => (type.ofType ? named(type.ofType) : type)
const isLeaf = (field) => ['SCALAR', 'ENUM'].includes(named(field.type).kind)

/** The first leaves of a type, and of the objects in it down to the depth. */
async function selection(typeName, depth, indent) {
  const { __type } = await ask('query($name: String!) { __type(name: $name) { fields { name ' + type + ' } } }', { name: typeName })
  const lines = __type.fields.filter(isLeaf).slice(0, 5).map(({ name }) => indent + name)
  for (const field of depth > 0 ? __type.fields.filter((each) => !isLeaf(each)) : []) {
    const inner = await selection(named(field.type).name, depth - 1, indent + '  ')
    lines.push(indent + field.name + ' {\\n' + inner + '\\n' + indent + '}')
  }
  return lines.join('\\n')
}

async function examples() {
  const fields = 'fields { name args { name } ' + type + ' }'
  const { __schema } = await ask('{ __schema { queryType { ' + fields + ' } subscriptionType { ' + fields + ' } } }')
  const list = __schema.queryType.fields.find(({ args }) => args.some(({ name }) => name === 'limit'))
  if (list === undefined) return []
  const columns = await selection(named(list.type).name, 0, '    ')
  const tabs = [{ query: 'query Rows {\\n  ' + list.name + '(limit: 10) {\\n' + columns + '\\n  }\\n}\\n' }]
  const changes = __schema.subscriptionType?.fields.find(({ name }) => name === list.name + 'Changes')
  if (changes === undefined) return tabs
  const event = await selection(named(changes.type).name, 1, '    ')
  return [...tabs, { query: 'subscription Changes {\\n  ' + changes.name + ' {\\n' + event + '\\n  }\\n}\\n' }]
}

/** Without the right to introspect there are none. */
examples()
  .catch(() => [])
  .then((tabs) => {
    YogaGraphiQL.renderYogaGraphiQL(root, {
      endpoint,
      title: 'Busbar GraphQL',
      subscriptionsProtocol: 'SSE',
      credentials: 'omit',
      isHeadersEditorEnabled: true,
      defaultEditorToolsVisibility: true,
      ...(tabs.length > 0 ? { defaultTabs: tabs } : { defaultQuery: '# Write a query here.\\n' }),
    })
  })
`

export const playgroundStyle = `html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; }
#playground { flex: 1; min-height: 0; }
.bar {
  display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 0.75rem;
  padding: 0.6rem 1.25rem; background: #17324d; color: #fff; font: 14px/1.4 system-ui, sans-serif;
}
.bar strong { font-size: 16px; }
.bar code { color: #9db4ca; font: 13px/1.4 ui-monospace, monospace; }
.bar nav { margin-left: auto; }
.bar a { color: #cfe3f7; }
.bar a:focus-visible { outline: 2px solid #ffd166; outline-offset: 1px; }
`
