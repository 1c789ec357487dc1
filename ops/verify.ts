import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { environment } from '../schemas/config/environment.ts'
import { checkout } from './settings.ts'
import { runTests } from './test.ts'

const folders = ['bus', 'gateways', 'workers', 'projections', 'schemas', 'ops', 'test'].filter((name) => {
  return existsSync(join(checkout, name))
})

const steps: readonly (readonly [string, readonly string[]])[] = [
  ['format and lint', ['biome', 'ci', '--error-on-warnings', '.']],
  ['types', ['tsc', '--noEmit', '-p', '.']],
  ['imports', ['depcruise', '--config', '.dependency-cruiser.cjs', ...folders]],
  ['dead code', ['knip']],
]

/** Runs every step, also after one that failed, and says of each how it went. */
export async function verify(folder: string): Promise<boolean> {
  const failed: string[] = []
  for (const [title, command] of steps) {
    console.log(`\n== ${title}`)
    if (!(await run(command))) failed.push(title)
  }
  console.log('\n== tests')
  if (!(await runTests([], { jobs: 2, folder }))) failed.push('tests')
  const titles = [...steps.map(([title]) => title), 'tests']
  console.log(`\n${titles.map((title) => `${failed.includes(title) ? 'FAILED' : 'ok'}  ${title}`).join('\n')}`)
  return failed.length === 0
}

function run([program, ...args]: readonly string[]): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const child = spawn(join(checkout, 'node_modules/.bin', program ?? ''), args, {
      cwd: checkout,
      stdio: 'inherit',
      env: environment(),
    })
    child.once('error', reject)
    child.once('exit', (code) => resolve(code === 0))
  })
}
