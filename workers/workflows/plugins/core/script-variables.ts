import { join } from 'node:path'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { scriptPath } from './script-account.ts'
import type { ScriptInput } from './script-properties.ts'

/** Where a script puts what it gives, in its folder. */
export const outputName = '.busbar-output.json'

/** The environment of a script. @throws {TaskFailure} `refused` for what can be no variable */
export function variablesOf({ input, idempotencyKey }: TaskRun<ScriptInput>, folder: string): Record<string, string> {
  const all = {
    ...(input.runner === 'process' && { PATH: scriptPath.join(':') }),
    HOME: folder,
    TMPDIR: folder,
    LANG: 'C.UTF-8',
    BUSBAR_OUTPUT: join(folder, outputName),
    BUSBAR_IDEMPOTENCY_KEY: idempotencyKey,
    ...input.env,
  }
  for (const [name, value] of Object.entries(all)) {
    if (/^[A-Za-z_]\w*$/.test(name) && !value.includes('\0')) continue
    throw new TaskFailure('refused', `properties.env: ${JSON.stringify(name.slice(0, 100))} cannot be a variable`)
  }
  return all
}
