import { existsSync } from 'node:fs'

/** util-linux; Linux alone can tie a child's life to its parent's. */
const setpriv = '/usr/bin/setpriv'

/**
 * A program, and its arguments, that gets the signal when we end, however we end: what is killed leaves nobody behind who writes where
 * its successor does. Its own children are not tied.
 */
export function tied(
  command: string,
  args: readonly string[],
  signal: NodeJS.Signals = 'SIGKILL',
): readonly [command: string, args: string[]] {
  if (process.platform !== 'linux' || !existsSync(setpriv)) return [command, [...args]]
  return [setpriv, ['--pdeathsig', signal.replace('SIG', ''), '--', command, ...args]]
}
