import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t from 'tap'
import { startCommand } from '../support/command.ts'

const module = resolve(import.meta.dirname, '../../workers/provisioning/local/unnamed-file.ts')

t.test('what a program is to read in secret is in no folder, whenever we are killed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-unnamed-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const source = `
    const { spawn } = await import('node:child_process')
    const { unnamedFile } = await import(${JSON.stringify(module)})
    const file = unnamedFile('open sesame')
    const reader = spawn('/bin/sh', ['-c', 'cat /dev/fd/3 && exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore', file] })
    reader.stdout.once('data', (data) => console.log('read', String(data), reader.pid))`
  const command = startCommand(process.execPath, ['--input-type=module', '-e', source], { TMPDIR: folder })
  await command.printed('read')
  t.strictSame(readdirSync(folder), [], 'while it is read')
  command.process.kill('SIGKILL')
  const { stdout } = await command.finished
  const [, reader] = /^read open sesame (\d+)$/m.exec(stdout) ?? []
  t.ok(reader, stdout)
  t.strictSame(readdirSync(folder), [])
  t.equal(spawnSync('grep', ['-rqF', 'open sesame', folder]).status, 1)
  process.kill(Number(reader), 'SIGKILL')
})
