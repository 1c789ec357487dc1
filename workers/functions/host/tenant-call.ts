import type { FaultCode, StrikeReason } from './call.ts'
import type { GuestSupply } from './guest-supply.ts'
import type { Forwarded, ForwardedOperation } from './operations-host.ts'
import type { LogLine } from './operations-log.ts'

/** A call in this host. */
export interface TenantCall {
  readonly id: number
  readonly key: string
  readonly start: string
  /** As the guest's `start` takes it. */
  readonly body: string
  readonly bodyKind: number
  /** Of performance.now(). */
  readonly deadline: number
  /** Some of its code has run. */
  started: boolean
  cpuMs: number
}

/** What a tenant runs, and the one call it is for; 0 where calls share it. */
export interface TenantProgram {
  readonly fn: string
  readonly rev: number
  readonly env: number
  readonly apart: number
}

/** What a tenant asks of the host around it. `Tenant`: as the host knows tenants. */
export interface TenantHost<Tenant> {
  readonly guests: GuestSupply
  readonly cpuLimitMs: number
  readonly computingMs: number
  /** An operation of the supervisor's. Never answers once the tenant has ended. */
  readonly forward: (tenant: Tenant, name: ForwardedOperation, argument: string, invocationId: string) => Forwarded
  /** Answers whether promises given to waitUntil are open. */
  readonly reply: (call: TenantCall, reply: string) => boolean
  readonly fault: (call: TenantCall, code: FaultCode, message: string) => void
  /** Calls that have not begun need another isolate. */
  readonly again: (calls: readonly TenantCall[]) => void
  readonly log: (tenant: Tenant, line: LogLine) => void
  /** Lines written since a mark can be taken back. */
  readonly logMark: () => number
  readonly dropLogs: (mark: number) => void
  readonly strike: (tenant: Tenant, reason: StrikeReason) => void
  /** This process has something in it that only its end removes. */
  readonly doomed: (tenant: Tenant, reason: StrikeReason) => void
  /** No new call may reach the tenant. */
  readonly forget: (tenant: Tenant) => void
}
