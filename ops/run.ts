import type { Config } from '../schemas/config.ts'
import { describe } from './explain.ts'
import { onInterrupt } from './interrupt.ts'
import { createLog } from './log.ts'
import type { RunningRole } from './role-options.ts'
import { type Role, requireOwnPorts } from './roles.ts'

/** What a role process tells the `busbar up` that started it. */
export type RoleMessage =
  | { readonly kind: 'ready'; readonly url?: string }
  | { readonly kind: 'failed'; readonly message: string }

/**
 * Runs roles in this process until it is told to stop (SIGINT, SIGTERM), then stops them in reverse order; a second signal
 * ends the process at once.
 */
export async function runRoles(chosen: readonly Role[], config: Config): Promise<void> {
  requireOwnPorts(config, chosen)
  const log = createLog(config['log.level'])
  const controller = new AbortController()
  const told = onInterrupt(() => process.exit(130))
  const started: { readonly role: Role; readonly running: RunningRole }[] = []
  const stopAll = async () => {
    controller.abort()
    for (const { role, running } of started.reverse()) {
      await running.stop()
      log.info({ role: role.name }, 'role stopped')
    }
  }
  try {
    for (const role of chosen) {
      const running = await role.start({ config, log, signal: controller.signal })
      started.push({ role, running })
      log.info({ role: role.name, url: running.url }, 'role started')
    }
  } catch (error) {
    await stopAll()
    tell({ kind: 'failed', message: describe(error) })
    throw error
  }
  const url = started.find(({ running }) => running.url !== undefined)?.running.url
  tell({ kind: 'ready', ...(url === undefined ? {} : { url }) })
  await told
  await stopAll()
}

function tell(message: RoleMessage): void {
  if (process.connected) process.send?.(message)
}
