/** In a list of origins: pages of this machine, on any port. */
const loopback = 'loopback'

const loopbackOrigin = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/

/** The list as `@fastify/cors` takes it. */
export function corsOrigin(allowed: readonly string[]): '*' | (string | RegExp)[] {
  if (allowed.includes('*')) return '*'
  return allowed.map((origin) => (origin === loopback ? loopbackOrigin : origin))
}

export function isAllowedOrigin(origin: string, allowed: readonly string[]): boolean {
  if (allowed.includes('*') || allowed.includes(origin)) return true
  return allowed.includes(loopback) && loopbackOrigin.test(origin)
}
