/** Ctrl-C reaches us once from the terminal and may reach us again through npm: within this time it is one. */
const oneInterruptMs = 1000

/**
 * Resolves at the first wish to stop: SIGINT, SIGTERM, SIGHUP, or the end of the process that started us with a channel.
 * A later second wish calls `again`.
 */
export function onInterrupt(again: () => void): Promise<string> {
  let firstAt: number | undefined
  return new Promise((resolve) => {
    const wish = (why: string) => {
      if (firstAt === undefined) {
        firstAt = performance.now()
        resolve(why)
      } else if (performance.now() - firstAt > oneInterruptMs) again()
    }
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, wish)
    if (process.channel !== undefined) process.once('disconnect', () => wish('disconnect'))
  })
}
