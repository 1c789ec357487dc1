import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { freePort } from '../../ops/local/child.ts'
import { environment } from '../../schemas/config/environment.ts'
import { type ConfigName, configKeys, environmentName } from '../../schemas/config.ts'

const cli = resolve(import.meta.dirname, '../../ops/cli.ts')

interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Command {
  readonly process: ChildProcess
  readonly finished: Promise<Finished>
  /** Resolves once standard output holds the text; rejects when the program ends without it. */
  printed(text: string): Promise<void>
}

/** Starts `busbar` with these arguments, as a process of its own. */
export function startBusbar(args: readonly string[], env: Readonly<Record<string, string>> = {}): Command {
  return startCommand(process.execPath, [cli, ...args], env)
}

export function startCommand(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Command {
  // Nothing of the person who runs the tests: no keys of theirs, no application.yml. The channel ends the program with the
  // test, however that ends.
  const ours = new Set((Object.keys(configKeys) as ConfigName[]).map(environmentName))
  const inherited = Object.entries(environment()).filter(([name]) => !ours.has(name) && !name.startsWith('npm_'))
  const child = spawn(program, args, {
    cwd: tmpdir(),
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  child.channel?.unref()
  const output = { stdout: '', stderr: '' }
  const waiting = new Set<() => void>()
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]!.setEncoding('utf8').on('data', (chunk: string) => {
      output[name] += chunk
      for (const check of waiting) check()
    })
  }
  const finished = new Promise<Finished>((done) => child.once('close', (code) => done({ code, ...output })))
  const printed = (text: string) =>
    new Promise<void>((done, fail) => {
      const check = () => {
        if (!output.stdout.includes(text)) return
        waiting.delete(check)
        done()
      }
      waiting.add(check)
      check()
      void finished.then(() => fail(new Error(`ended without printing ${text}:\n${output.stdout}\n${output.stderr}`)))
    })
  return { process: child, finished, printed }
}

/** A data folder of its own and free ports, as arguments of `up`. */
export async function ownPlace(
  t: Pick<Test, 'teardown'>,
): Promise<{ readonly folder: string; readonly args: readonly string[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-up-'))
  // As a folder made by `up` itself: the unprivileged PostgreSQL of root may pass through.
  chmodSync(folder, 0o755)
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }))
  const [nats, postgres, rest, graphql] = [await freePort(), await freePort(), await freePort(), await freePort()]
  return {
    folder,
    args: [
      `--busbar.data=${folder}`,
      `--nats.port=${nats}`,
      `--postgres.port=${postgres}`,
      `--gateway.rest.port=${rest}`,
      `--gateway.graphql.port=${graphql}`,
      `--gateway.functions.port=${await freePort()}`,
      `--gateway.provisioning.port=${await freePort()}`,
      `--gateway.workflows.port=${await freePort()}`,
    ],
  }
}
