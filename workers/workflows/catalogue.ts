import type { Plugin } from './plugin.ts'
import { approval } from './plugins/core/approval.ts'
import { foreach } from './plugins/core/foreach.ts'
import { choose } from './plugins/core/if.ts'
import { log } from './plugins/core/log.ts'
import { parallel } from './plugins/core/parallel.ts'
import { subflow } from './plugins/core/subflow.ts'
import { choice } from './plugins/core/switch.ts'
import { wait } from './plugins/core/wait.ts'
import { whileLoop } from './plugins/flow-control/while.ts'

/** The built-in plugins, in the order of the catalogue. A library that one needs is imported when it first runs. */
export const catalogue: readonly Plugin[] = [
  // Core
  choose,
  choice,
  foreach,
  parallel,
  wait,
  subflow,
  approval,
  log,
  // Flow Control
  whileLoop,
]
