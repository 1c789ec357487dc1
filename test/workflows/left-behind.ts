import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'

/** Processes that this one has started, and those that they have. */
export function childrenOf(parent: number): readonly number[] {
  const all = parents()
  const children = new Set<number>()
  for (let before = -1; before !== children.size; ) {
    before = children.size
    for (const [pid, by] of all) if (by === parent || children.has(by)) children.add(pid)
  }
  return [...children]
}

function parents(): readonly (readonly [number, number])[] {
  if (process.platform !== 'linux') {
    const lines = execFileSync('ps', ['-axo', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
    return lines.map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const status = readFileSync(`/proc/${pid}/stat`, 'latin1')
        const [state, by] = status.slice(status.lastIndexOf(')') + 2).split(' ')
        return state === 'Z' ? [] : [[Number(pid), Number(by)] as const]
      } catch {
        return []
      }
    })
}

/** Folders of tasks that are there. */
export function scratchFolders(): readonly string[] {
  return readdirSync(tmpdir()).filter((name) => /^busbar-(trial|task)-/.test(name))
}
