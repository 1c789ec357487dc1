import { readFileSync } from 'node:fs'
import t from 'tap'
import { errorCodes } from '../../schemas/errors.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'

const page = readFileSync(new URL('../../schemas/ERRORS.md', import.meta.url), 'utf8')
const documented = Object.fromEntries(
  [...page.matchAll(/^\| `([^`]+)` \| (\d+) \| (.+) \|$/gm)].map(([, code = '', status, meaning]) => [
    code,
    { status: Number(status), meaning },
  ]),
)

t.test('the errors page and the registry say the same, both ways', async (t) => {
  t.same(documented, errorCodes)
})

t.test('a rejection takes its status from the registry and keeps its cause', async (t) => {
  const cause = new Error('23505')
  const rejected = new Rejected('data/conflict', 'Taken', {
    details: { column: 'email' },
    hint: 'Choose another.',
    cause,
  })
  t.match(rejected, { status: 409, message: 'Taken', details: { column: 'email' }, hint: 'Choose another.', cause })
})

t.test('what is unavailable says when to come back', async (t) => {
  t.match(new Unavailable('http/unavailable', 'Away', { retryAfterSeconds: 5 }), { status: 503, retryAfterSeconds: 5 })
})
