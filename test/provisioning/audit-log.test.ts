import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { readLogTail } from '../../workers/provisioning/local/metrics/log-tail.ts'
import { readStatementLog } from '../../workers/provisioning/local/performance/audit.ts'

const at = '2026-11-21 20:50:35.669 UTC [13463] LOG: '
const mine = [
  `${at} connection authorized: user=app database=app application_name=psql`,
  `${at} statement: create table audited (id int)`,
  `${at} disconnection: session time: 0:00:00.052 user=app database=app host=127.0.0.1 port=43790`,
]
const probe = `${[
  `${at} connection received: host=127.0.0.1 port=43814`,
  `${at} connection authorized: user=busbar_admin database=postgres application_name=busbar health`,
  `${at} disconnection: session time: 0:00:00.156 user=busbar_admin database=app host=127.0.0.1 port=43814`,
].join('\n')}\n`

t.test('what was audited is found behind what the platform asked since, and in what was moved aside', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'busbar-audit-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const logFile = join(root, 'members/m1/log/server.log')
  mkdirSync(join(logFile, '..'), { recursive: true })
  const write = (text: string) => appendFileSync(logFile, text)
  // Half a day of it.
  const noise = probe.repeat(10_000)
  write(`${mine.join('\n')}\n${noise}`)
  t.strictSame(await readStatementLog({ logFile }, 10), mine)
  t.strictSame(await readStatementLog({ logFile }, 1), mine.slice(2), 'the newest of them')
  renameSync(logFile, `${logFile}.1`)
  t.strictSame(await readStatementLog({ logFile }, 10), mine)
  const later = `${at} statement: drop table audited -- ${'ü'.repeat(1_000_000)}`
  write(`${noise}${later}\n${probe}`)
  t.strictSame(
    await readStatementLog({ logFile }, 10),
    [...mine, later],
    'also lines that are longer than what is read at once',
  )
})

t.test('no line tells where the folder of the instance is', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'busbar-audit-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const logFile = join(root, 'members/m1/log/server.log')
  mkdirSync(join(logFile, '..'), { recursive: true })
  appendFileSync(logFile, `${at} connection authenticated: identity="app" method=scram-sha-256 (${root}/hba.conf:4)\n`)
  const { lines } = await readLogTail(logFile)
  t.strictSame(lines, [`${at} connection authenticated: identity="app" method=scram-sha-256 (hba.conf:4)`])
})
