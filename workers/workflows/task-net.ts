import { lookup } from 'node:dns/promises'
import { connect, type Socket } from 'node:net'
import { checkedAddresses, FetchRefused, pinned, type ResolvedAddress } from '../egress/hop.ts'
import { type EgressPolicy, egressPolicy } from '../egress/policy.ts'
import { type NetTarget, TaskFailure, type TaskNet } from './plugin.ts'
import type { EgressSettings } from './task-fetch.ts'

const connectMs = 10_000

interface Server {
  readonly hostname: string
  readonly port: number
}

/**
 * TCP for tasks, under the platform's egress policy: public addresses, and what is allowed besides.
 * @param closed servers that no task may reach, whatever is allowed. Default: none
 */
export function taskNet(settings: EgressSettings, closed: () => readonly Server[] = () => []): TaskNet {
  const policy = egressPolicy(settings)
  return {
    async connect(target) {
      const socket = await open(policy, target)
      if (!(await leadsTo(closed(), socket))) return socket
      socket.destroy()
      throw new TaskFailure('refused', "This is the platform's own bus, which tasks may not connect to")
    },
    resolve: (host, signal) => resolveAllowed(policy, host, signal),
  }
}

async function resolveAllowed(
  policy: EgressPolicy,
  host: string,
  signal: AbortSignal,
): Promise<readonly ResolvedAddress[]> {
  const name = host.replace(/^\[|\]$/g, '')
  try {
    return await checkedAddresses(name, policy, (each) => lookup(each, { all: true }), signal)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof FetchRefused)
      throw new TaskFailure('refused', `"${name}" may not be connected to from here`, error)
    throw new TaskFailure('unavailable', `"${name}" cannot be found: ${codeOf(error)}`, error)
  }
}

async function open(policy: EgressPolicy, { host, port, signal, timeoutMs = connectMs }: NetTarget): Promise<Socket> {
  const name = host.replace(/^\[|\]$/g, '')
  const addresses = await resolveAllowed(policy, name, signal)
  signal.throwIfAborted()
  const socket = connect({ host: name, port, lookup: pinned(addresses), noDelay: true, keepAlive: true })
  const stop = () => socket.destroy()
  signal.addEventListener('abort', stop, { once: true })
  socket.once('close', () => signal.removeEventListener('abort', stop))
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const fail = (kind: 'unavailable' | 'timeout', why: string, cause?: unknown) =>
    reject(new TaskFailure(kind, `${name}:${port} cannot be connected to: ${why}`, cause))
  const timer = setTimeout(() => fail('timeout', `no answer for ${timeoutMs} ms`), timeoutMs)
  socket.once('connect', resolve)
  socket.once('close', () => fail('unavailable', 'closed'))
  // Stays: an error after a library has let go of the connection is of interest to nobody.
  socket.on('error', (error) => fail('unavailable', codeOf(error), error))
  try {
    await promise
    // What was checked is what was connected to; a bug elsewhere must not make that untrue.
    if (!policy.allows(name, socket.remoteAddress ?? ''))
      throw new TaskFailure('refused', `"${name}" may not be connected to from here`)
    return socket
  } catch (error) {
    socket.destroy()
    signal.throwIfAborted()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** By whatever name or address of the machine. */
async function leadsTo(
  servers: readonly Server[],
  { remoteAddress, localAddress, remotePort }: Socket,
): Promise<boolean> {
  const isHere = remoteAddress === localAddress
  const to = remoteAddress?.replace(/^::ffff:/, '')
  for (const { hostname, port } of servers) {
    if (port !== remotePort) continue
    const found = await lookup(hostname, { all: true }).catch(() => [])
    if (found.some(({ address }) => address === to || (isHere && /^(127\.|::1$)/.test(address)))) return true
  }
  return false
}

function codeOf(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string }
  return code ?? message ?? 'no reason given'
}
