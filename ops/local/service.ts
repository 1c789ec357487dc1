import type { ChildProcess } from 'node:child_process'
import type { Running, Service } from '../supervise.ts'
import { exited } from './child.ts'

interface Server {
  readonly url: string
  readonly process: ChildProcess
  stop(): Promise<void>
  kill(signal: NodeJS.Signals): Promise<void>
}

/** A local server as something to keep running. */
export function serverService(name: string, start: () => Promise<Server>): Service {
  return { name, start: async () => asRunning(await start()) }
}

function asRunning({ url, process: child, stop, kill }: Server): Running {
  return {
    url,
    ended: exited(child).then(() =>
      child.signalCode === null ? `exit code ${child.exitCode}` : `${child.signalCode}`,
    ),
    stop,
    // PostgreSQL ends its own children on SIGQUIT, and would leave them for a moment on SIGKILL.
    kill: () => kill('SIGQUIT'),
  }
}
