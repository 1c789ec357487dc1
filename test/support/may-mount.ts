import { readFileSync } from 'node:fs'

/** Whether this process may mount a file system. Source: capabilities(7) */
export function mayMount(): boolean {
  const bounds = /CapEff:\s*([0-9a-f]+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  const sysAdmin = 21n
  return process.getuid?.() === 0 && ((BigInt(`0x${bounds}`) >> sysAdmin) & 1n) === 1n
}
