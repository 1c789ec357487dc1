import { isIP } from 'node:net'

/**
 * Which hosts functions may connect to.
 * `allow` entries: `loopback`, `private` (RFC 1918, CGNAT and ULA), an address, a range (`10.0.0.0/8`), a host name or
 * `*.name`. `deny` entries: addresses, ranges, host names; they win.
 */
export interface EgressSettings {
  readonly allow?: readonly string[]
  readonly deny?: readonly string[]
}

/** Asked for every connection, by the name as written and by the address that is connected to. */
export interface EgressPolicy {
  /** False for names that are denied; their addresses are not even looked up. */
  readonly allowsHost: (host: string) => boolean
  /** `address`: what `host` resolved to, or the host itself. */
  readonly allows: (host: string, address: string) => boolean
}

interface Range {
  readonly bits: 32 | 128
  readonly base: bigint
  readonly prefix: number
}

interface Rules {
  readonly ranges: readonly Range[]
  readonly names: readonly string[]
}

/** Source: IANA special-purpose address registries; the last one is Azure's metadata service. */
const NOT_PUBLIC_4 = [
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24',
  '192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 168.63.129.16/32',
]
/** Within 2000::/3, outside of which no address is public: Teredo and the like, documentation, 6to4. */
const NOT_PUBLIC_6 = ['2001::/23 2001:db8::/32 2002::/16 3fff::/20']
const PUBLIC_6 = ['2000::/3']
/** Prefixes that carry an IPv4 address in their last 32 bits: it is the one that counts. */
const CARRY_4 = ['::ffff:0:0/96 64:ff9b::/96']

const named: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8 ::1/128'],
  private: ['10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7'],
}
/** Not opened by `private`, since they hand out credentials. */
const METADATA = ['100.100.100.200/32 fd00:ec2::254/128']

const rangesOf = (lists: readonly string[]): Range[] =>
  lists.flatMap((list) => list.split(' ')).map((one) => rangeOf(one)!)

const notPublic4 = rangesOf(NOT_PUBLIC_4)
const notPublic6 = rangesOf(NOT_PUBLIC_6)
const public6 = rangesOf(PUBLIC_6)
const carry4 = rangesOf(CARRY_4)
const metadata = rangesOf(METADATA)

/** @throws {Error} naming an entry that is neither a word, an address, a range nor a host name */
export function egressPolicy({ allow = [], deny = [] }: EgressSettings): EgressPolicy {
  const allowed = rulesOf(allow)
  const explicit = rulesOf(allow.filter((entry) => named[entry] === undefined))
  const denied = rulesOf(deny)
  return {
    allowsHost: (host) => !namedBy(denied, host),
    allows(host, address) {
      const value = addressOf(address)
      if (value === null || namedBy(denied, host) || within(denied.ranges, value)) return false
      if (namedBy(allowed, host) || within(explicit.ranges, value)) return true
      return isPublic(value) || (within(allowed.ranges, value) && !within(metadata, value))
    },
  }
}

function rulesOf(entries: readonly string[]): Rules {
  const ranges: Range[] = []
  const names: string[] = []
  for (const entry of entries) {
    const range = rangeOf(entry)
    if (named[entry] !== undefined) ranges.push(...rangesOf(named[entry]))
    else if (range !== null) ranges.push(range)
    else if (/^(\*\.)?[a-z0-9_]([a-z0-9._-]*[a-z0-9])?$/i.test(entry) && !/^[\d.]+$/.test(entry))
      names.push(entry.toLowerCase())
    else throw new Error(`"${entry}" is no address, range or host name that functions could fetch from`)
  }
  return { ranges, names }
}

function namedBy({ names }: Rules, host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, '')
  return names.some((one) => (one.startsWith('*.') ? name.endsWith(one.slice(1)) : name === one))
}

interface Address {
  readonly bits: 32 | 128
  readonly value: bigint
}

function isPublic(address: Address): boolean {
  if (address.bits === 32) return !within(notPublic4, address)
  return within(public6, address) && !within(notPublic6, address)
}

const within = (ranges: readonly Range[], { bits, value }: Address): boolean =>
  ranges.some((range) => {
    const shift = BigInt(range.bits - range.prefix)
    return range.bits === bits && value >> shift === range.base >> shift
  })

function rangeOf(text: string): Range | null {
  const [base, prefix, more] = text.split('/')
  const address = plainAddress(base!)
  if (address === null || more !== undefined) return null
  const length = prefix === undefined ? address.bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : -1
  if (length < 0 || length > address.bits) return null
  return { bits: address.bits, base: address.value, prefix: length }
}

/** The address as a number; one that carries an IPv4 address counts as that. Null for what is none. */
function addressOf(text: string): Address | null {
  const address = plainAddress(text)
  if (address === null || address.bits === 32 || !within(carry4, address)) return address
  return { bits: 32, value: address.value & 0xffff_ffffn }
}

function plainAddress(text: string): Address | null {
  const [bare] = text.split('%')
  const version = isIP(bare!)
  if (version === 0) return null
  return version === 4 ? { bits: 32, value: v4(bare!) } : { bits: 128, value: v6(bare!) }
}

function v4(text: string): bigint {
  return text.split('.').reduce((sum, part) => (sum << 8n) | BigInt(part), 0n)
}

function v6(text: string): bigint {
  const [head, tail] = text.split('::')
  const left = groupsOf(head!)
  const right = tail === undefined ? [] : groupsOf(tail)
  const zeros = new Array<bigint>(tail === undefined ? 0 : 8 - left.length - right.length).fill(0n)
  return [...left, ...zeros, ...right].reduce((sum, group) => (sum << 16n) | group, 0n)
}

function groupsOf(text: string): bigint[] {
  if (text === '') return []
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [BigInt(`0x${group}`)]
    const value = v4(group)
    return [value >> 16n, value & 0xffffn]
  })
}
