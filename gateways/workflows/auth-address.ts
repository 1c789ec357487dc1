import { BlockList, isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** The address a request comes from, past the proxies that are trusted. */
export type AddressOf = (request: FastifyRequest) => string

const maxHops = 20

/** @param proxies addresses and ranges, `10.0.0.0/8` @throws {TypeError} for one that is neither */
export function addressReader(proxies: readonly string[] = []): AddressOf {
  const trusted = new BlockList()
  for (const proxy of proxies) addTrusted(trusted, proxy)
  const isTrusted = (address: string) => trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  return ({ socket, headers }) => {
    let address = plain(socket.remoteAddress ?? '0.0.0.0')
    const forwarded = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',').slice(-maxHops)
    // From the nearest to the farthest: what an untrusted one says of those before it is worth nothing.
    while (isTrusted(address)) {
      const before = plain(forwarded.pop()?.trim() ?? '')
      if (isIP(before) === 0) break
      address = before
    }
    return address
  }
}

function addTrusted(trusted: BlockList, proxy: string): void {
  const [address = '', length, ...rest] = proxy.split('/')
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
  const longest = family === 'ipv6' ? 128 : 32
  const bits = length === undefined ? longest : Number(length)
  if (isIP(address) === 0 || rest.length > 0 || !Number.isInteger(bits) || bits < 0 || bits > longest) {
    throw new TypeError(`app.workflows.trusted-proxies: ${proxy} is neither an address nor a range`)
  }
  trusted.addSubnet(address, bits, family)
}

/** IPv4 as it comes through a socket for both. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/, '')
}
