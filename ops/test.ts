import { execFile, spawn } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { delimiter, join, relative, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { environment } from '../schemas/config/environment.ts'
import { bringChromium } from './local/chromium.ts'
import { bringNats } from './local/nats-fetch.ts'
import { checkout, searchPath } from './settings.ts'

export interface TestOptions {
  /** Test files at a time. */
  readonly jobs: number
  /** The data folder, for fetched programs. */
  readonly folder: string
}

/**
 * Runs test files with tap, prints a line for each and the failures in full, and closes with one line `N passed, N failed`
 * (assertions). Answers whether all is well; no test at all is not well.
 */
export async function runTests(files: readonly string[], { jobs, folder }: TestOptions): Promise<boolean> {
  const binFolder = join(folder, 'bin')
  await bringNats({ searchPath: searchPath(), binFolder }, (line) => console.log(line))
  await buildTap()
  const all =
    files.length > 0
      ? files.map((file) => relative(checkout, resolve(file)))
      : globSync('test/**/*.test.ts', { cwd: checkout })
  if (all.some(needsBrowser)) await bringChromium(searchPath(), (line) => console.log(line))
  const args = ['run', '--disable-coverage', `--jobs=${jobs}`, '--reporter=tap', '--timeout=300', ...all.sort()]
  const child = spawn(process.execPath, [tap, ...args], {
    cwd: checkout,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...environment(), BUSBAR_DATA: folder, PATH: [searchPath(), binFolder].join(delimiter) },
  })
  const summary = summarise(console.log)
  const closed = new Promise<number | null>((done) => child.once('close', done))
  for await (const line of createInterface({ input: child.stdout })) summary.line(line)
  const code = await closed
  const { passed, failed } = summary.total()
  // A file that breaks before its first assertion fails as a whole.
  const failures = failed === 0 && (code !== 0 || passed === 0) ? 1 : failed
  console.log(`${passed} passed, ${failures} failed`)
  return failures === 0
}

const needsBrowser = (file: string) => readFileSync(join(checkout, file), 'utf8').includes('playwright-core')

const tap = join(checkout, 'node_modules/tap/dist/esm/run.mjs')

/**
 * tap's own library is generated from the plugins that package.json asks for; as the registry brings it, it has all. Without
 * its TypeScript plugin, Node runs the tests as it runs everything else here.
 */
async function buildTap(): Promise<void> {
  const built = readFileSync(join(checkout, 'node_modules/@tapjs/test/test-built/dist/esm/index.js'), 'utf8')
  if (!built.includes('@tapjs/typescript')) return
  console.log('building tap for its plugins (once)')
  await promisify(execFile)(process.execPath, [tap, 'build'], { cwd: checkout })
}

interface Summary {
  line(line: string): void
  total(): { readonly passed: number; readonly failed: number }
}

/**
 * Counts the assertions of a TAP stream: the `ok` lines that close no subtest. Files are the outermost subtests.
 */
export function summarise(print: (line: string) => void): Summary {
  let passed = 0
  let failed = 0
  /** How many assertions failed at each depth below, to know a closing line from an assertion. */
  const open: number[] = []
  let failing = false
  return {
    line(line) {
      const indent = /^ */.exec(line)?.[0].length ?? 0
      const depth = indent / 4
      if (/^ *# Subtest: /.test(line)) {
        open[depth] = failed
        failing = false
        return
      }
      const result = /^ *(not )?ok \d+(.*)$/.exec(line)
      if (result !== null) {
        const bad = result[1] !== undefined && !/# (TODO|SKIP)/i.test(line)
        const closes = open[depth] !== undefined
        const failedInside = failed - (open[depth] ?? failed)
        delete open[depth]
        // A subtest that fails though all in it passed failed by itself: it timed out, threw, or had no end.
        if (!closes || (bad && failedInside === 0)) {
          if (bad) failed++
          else if (!/# SKIP/i.test(line)) passed++
        }
        failing = bad && (!closes || failedInside === 0)
        if (failing || depth === 0) print(line.trim())
        return
      }
      if (failing && /^ +/.test(line)) print(line)
    },
    total: () => ({ passed, failed }),
  }
}
