import { spawn } from 'node:child_process'
import { globSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { OperatorError } from './local/operator-error.ts'

/**
 * Runs the tests of plugins of the user's own, with `busbar/plugin` there for them.
 * @param places files or folders
 * @returns whether all have passed
 * @throws {OperatorError} when there are none
 */
export async function testPlugins(places: readonly string[]): Promise<boolean> {
  const files = places.flatMap((place) => testsIn(resolve(place)))
  if (files.length === 0) throw new OperatorError(`There are no tests in ${places.join(', ')}: name them *.test.ts.`)
  const hook = new URL('../workers/workflows/plugin-import.ts', import.meta.url).href
  const child = spawn(process.execPath, ['--import', hook, '--test', ...files], { stdio: 'inherit' })
  return await new Promise((done, fail) => {
    child.once('error', fail)
    child.once('exit', (code) => done(code === 0))
  })
}

function testsIn(place: string): readonly string[] {
  const status = statSync(place, { throwIfNoEntry: false })
  if (status === undefined) throw new OperatorError(`There is no ${place}.`)
  return status.isDirectory()
    ? globSync('*.test.{ts,mts,js,mjs}', { cwd: place })
        .map((name) => join(place, name))
        .sort()
    : [place]
}
