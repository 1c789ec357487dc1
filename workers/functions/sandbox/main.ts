/**
 * The sandbox script's entry: evaluated in a fresh context before the user's code. Its completion value is the installer
 * `(op, begin, limitsJson) => GuestInterface`, see `operations.ts`.
 */
import { load, start, take } from './calls.ts'
import { installGlobals } from './globals.ts'
import { connect, settle } from './host.ts'
import { jsonParse, setPrototypeOf } from './intrinsics.ts'
import { GUEST_LIMITS, type GuestInterface, type GuestLimits, type HostBegin, type HostOp } from './operations.ts'
import { fire } from './timers.ts'

export function install(op: HostOp, begin: HostBegin, limitsJson: string): GuestInterface {
  const given = limitsJson === '' ? {} : (jsonParse(limitsJson) as Partial<GuestLimits>)
  connect({ op, begin }, { ...GUEST_LIMITS, ...given })
  installGlobals()
  return setPrototypeOf({ load, start, take, settle, fire }, null) as GuestInterface
}
