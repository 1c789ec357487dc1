import { approvals } from '/console/approvals.js'
import { one } from '/console/console.js'
import { execution, executions } from '/console/executions.js'
import { flow, flows } from '/console/flows.js'
import { plugins } from '/console/plugins.js'

/** By the first word of the location; `one` shows the thing whose id follows. */
const views = {
  executions: { all: executions, one: execution },
  flows: { all: flows, one: flow },
  approvals: { all: approvals },
  plugins: { all: plugins, one: plugins },
}

let leaving = new AbortController()

/** A view fills the section, and goes on with its own updates until the signal ends them. */
async function show() {
  leaving.abort()
  leaving = new AbortController()
  const [name = '', id] = location.hash.replace(/^#\//, '').split('/').map(decodeURIComponent)
  const view = views[name] ?? views.executions
  for (const link of document.querySelectorAll('#views a')) {
    link.setAttribute('aria-current', String(link.hash === `#/${name || 'executions'}`))
  }
  const place = one('#view')
  place.replaceChildren()
  await (id === undefined || view.one === undefined ? view.all : view.one)(place, leaving.signal, id)
}

const shown = () => show().catch((error) => leaving.signal.aborted || console.warn(error.message))

addEventListener('hashchange', shown)
void shown()
