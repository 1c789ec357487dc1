import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { batchCommand, becomeBatch } from '../../ops/local/batch-policy.ts'

/** Of the line in a `stat` of /proc: 0 is the usual one, 3 that for batches. Source: proc_pid_stat(5), sched.h. */
const policyIn = (stat: string) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38])

t.test('the policy for batches', { skip: batchCommand().length === 0 && 'this system has none' }, async (t) => {
  const tasks = () => readdirSync('/proc/self/task').map((task) => `/proc/self/task/${task}/stat`)
  const before = tasks()
  await becomeBatch()
  t.ok(before.length > 1)
  t.strictSame(
    before.map((path) => policyIn(readFileSync(path, 'latin1'))),
    before.map(() => 3),
    'all threads have it',
  )
  execFileSync('/usr/bin/chrt', ['-a', '-o', '-p', '0', String(process.pid)])
  t.equal(policyIn(readFileSync('/proc/self/stat', 'latin1')), 0)
  const [command, ...args] = [...batchCommand(), 'cat', '/proc/self/stat']
  t.equal(policyIn(execFileSync(command!, args, { encoding: 'latin1' })), 3, 'a program that is started under it')
})
