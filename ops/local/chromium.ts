import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { environment } from '../../schemas/config/environment.ts'

const run = promisify(execFile)
const names = ['chromium', 'chromium-browser', 'google-chrome']

/** Path of a Chromium on the search path; undefined when there is none. */
export function lookForChromium(searchPath: string): string | undefined {
  const folders = searchPath.split(delimiter).filter((folder) => folder !== '')
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path))
}

/** Installs Debian's Chromium for the tests that need a browser, where that can be done; says why where not. */
export async function bringChromium(searchPath: string, tell: (line: string) => void): Promise<void> {
  if (lookForChromium(searchPath) !== undefined) return
  const root = process.getuid?.() === 0
  if (!root || !existsSync('/usr/bin/apt-get')) {
    tell('no Chromium on PATH: tests that need a browser are skipped (on Debian: apt-get install chromium)')
    return
  }
  tell('installing Chromium from Debian, for tests that need a browser')
  const options = { env: { ...environment(), DEBIAN_FRONTEND: 'noninteractive' }, maxBuffer: 64 * 1024 * 1024 }
  try {
    await run('apt-get', ['update', '-qq'], options)
    await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'chromium'], options)
  } catch (error) {
    tell(`Chromium could not be installed, tests that need a browser are skipped: ${(error as Error).message}`)
  }
}
