import { ago, done, element, get, tell } from '/console/console.js'
import { api, repeatedly, statusText, table } from '/console/executions.js'

/** Gates at which executions wait for somebody. */
export async function approvals(place, signal) {
  const found = element('div')
  place.append(element('h1', {}, 'Approvals'), found)
  const refresh = async () => {
    const rows = await get(`${api}/approvals?limit=100`)
    if (signal.aborted) return
    found.replaceChildren(
      rows.length === 0 ? element('p', { className: 'quiet' }, 'Nobody waits.') : listed(rows, refresh),
    )
  }
  // Not while somebody writes a comment.
  await repeatedly(signal, async () => {
    if (!found.contains(document.activeElement)) await refresh()
  })
}

function listed(rows, refresh) {
  return table(
    ['Asked', 'Execution', 'Question', 'For', 'Answer'],
    rows.map((row) => [
      ago(row.requestedAt),
      element('a', { href: `#/executions/${row.executionId}` }, `${row.taskName} of ${row.executionId.slice(0, 13)}`),
      row.message,
      `${row.role} and above`,
      row.status === 'PENDING' ? answering(row, refresh) : answered(row),
    ]),
  )
}

function answered({ status, decidedBy, comment }) {
  return element(
    'span',
    {},
    statusText(status),
    decidedBy === null ? '' : ` by ${decidedBy}`,
    comment ? `: ${comment}` : '',
  )
}

function answering({ id }, refresh) {
  const comment = element('input', { placeholder: 'comment', ariaLabel: 'Comment' })
  const buttons = ['approve', 'reject'].map((verb) => {
    const button = element('button', { type: 'button', className: verb === 'approve' ? 'main' : 'bad' }, verb)
    button.addEventListener('click', async () => {
      await done('POST', `${api}/approvals/${id}/${verb}`, { comment: comment.value })
      tell(`${verb}: done`)
      await refresh()
    })
    return button
  })
  return element('span', { className: 'row' }, comment, ...buttons)
}
