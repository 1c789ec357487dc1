import { readdir, readFile } from 'node:fs/promises'

/** What a server and its children have used. Linux only; null elsewhere or when the process is gone. */
export interface ProcessUsage {
  /** Since the start, children that ended included. */
  readonly cpuSeconds: number
  /** Each page counted once, shared ones by their share. */
  readonly memoryBytes: number | null
}

/** USER_HZ: 100 on every Linux. */
const ticksPerSecond = 100

/** Reads a process tree from /proc. `pid`: the server's first process. */
export async function readProcessUsage(pid: number): Promise<ProcessUsage | null> {
  const head = await readStat(pid)
  if (head === null) return null
  const children = (await Promise.all((await childrenOf(pid)).map(readStat))).filter((stat) => stat !== null)
  const ticks = children.reduce((sum, { own }) => sum + own, head.own + head.ended)
  const shares = await Promise.all([head, ...children].map((stat) => proportionalBytes(stat.pid)))
  const known = shares.filter((bytes) => bytes !== null)
  return {
    cpuSeconds: ticks / ticksPerSecond,
    memoryBytes: known.length === 0 ? null : known.reduce((sum, bytes) => sum + bytes, 0),
  }
}

interface ProcessStat {
  readonly pid: number
  readonly own: number
  readonly ended: number
}

async function readStat(pid: number): Promise<ProcessStat | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  if (text === null) return null
  // The second field is the name in parentheses and may hold blanks.
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15)
  return { pid, own: user + system, ended: endedUser + endedSystem }
}

async function childrenOf(pid: number): Promise<readonly number[]> {
  const tasks = await readdir(`/proc/${pid}/task`).catch(() => [])
  const lists = await Promise.all(
    tasks.map((task) => readFile(`/proc/${pid}/task/${task}/children`, 'utf8').catch(() => '')),
  )
  return lists.flatMap((list) => list.trim().split(/\s+/).filter(Boolean).map(Number)) // biome-ignore format: one chain
}

async function proportionalBytes(pid: number): Promise<number | null> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => null)
  const kilobytes = /^Pss:\s+(\d+) kB/m.exec(text ?? '')?.[1]
  return kilobytes === undefined ? null : Number(kilobytes) * 1024
}
