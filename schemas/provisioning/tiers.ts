export const databaseTypes = ['POSTGRESQL', 'MYSQL', 'MONGODB'] as const
export type DatabaseType = (typeof databaseTypes)[number]

export const tierNames = ['FREE', 'STANDARD', 'ENTERPRISE'] as const
export type TierName = (typeof tierNames)[number]

const gib = 1024 ** 3
const mib = 1024 ** 2

export interface Tier {
  /** Servers of an instance in a cluster. */
  readonly instances: number
  /** Servers of an instance where one machine has to carry them all. */
  readonly localInstances: number
  readonly storageBytes: number
  readonly memoryBytes: number
  readonly cpu: number
  readonly maxConnections: number
  /** Whether a commit waits until a second server has it, while there is one. */
  readonly synchronous: boolean
  readonly monthlyCostUsd: number
}

/** What a tier gives and costs: the one table of it. */
export const tiers: Readonly<Record<TierName, Tier>> = {
  FREE: {
    instances: 1,
    localInstances: 1,
    storageBytes: 5 * gib,
    memoryBytes: 512 * mib,
    cpu: 0.5,
    maxConnections: 50,
    synchronous: false,
    monthlyCostUsd: 0,
  },
  STANDARD: {
    instances: 3,
    localInstances: 2,
    storageBytes: 50 * gib,
    memoryBytes: 4 * gib,
    cpu: 2,
    maxConnections: 100,
    synchronous: false,
    monthlyCostUsd: 49.99,
  },
  ENTERPRISE: {
    instances: 5,
    localInstances: 3,
    storageBytes: 500 * gib,
    memoryBytes: 16 * gib,
    cpu: 4,
    maxConnections: 200,
    synchronous: true,
    monthlyCostUsd: 199.99,
  },
}

/** What a month is made up of, in parts of its price. */
const costShares = { compute: 0.6, storage: 0.3, backup: 0.1 }
const hoursPerMonth = 730
const priceListVersion = '2026-11'

/** What a tier costs. Amounts in USD, to the cent. */
export function estimate(tier: TierName) {
  const { monthlyCostUsd, instances, cpu, memoryBytes, storageBytes } = tiers[tier]
  const cents = (amount: number) => Math.round(amount * 100) / 100
  const compute = cents(monthlyCostUsd * costShares.compute)
  const storage = cents(monthlyCostUsd * costShares.storage)
  return {
    tier,
    monthlyCostUsd,
    currency: 'USD',
    hourlyCostUsd: Math.round((monthlyCostUsd / hoursPerMonth) * 10_000) / 10_000,
    hoursPerMonth,
    // What is left is the third part: the parts make up the whole.
    breakdown: { compute, storage, backup: cents(monthlyCostUsd - compute - storage) },
    includes: { instances, cpu, memory: sizeText(memoryBytes), storage: sizeText(storageBytes) },
    priceListVersion,
  }
}

const units = { Ki: 1024, Mi: mib, Gi: gib, Ti: 1024 * gib, K: 1e3, M: 1e6, G: 1e9, T: 1e12 } as const
const maxStorageBytes = 64 * 1024 * gib

/** Bytes of a storage size such as `10Gi`, `500M` or `1073741824`; null when it is none, or more than 64Ti. */
export function sizeBytes(text: string): number | null {
  const found = /^(\d{1,15}(?:\.\d{1,3})?)(Ki|Mi|Gi|Ti|K|M|G|T|KB|MB|GB|TB)?B?$/.exec(text)
  if (found === null) return null
  const unit = (found[2] ?? '').replace(/B$/, '') as keyof typeof units | ''
  const bytes = Number(found[1]) * (unit === '' ? 1 : units[unit])
  return Number.isInteger(bytes) && bytes > 0 && bytes <= maxStorageBytes ? bytes : null
}

/** The shortest way to write it that is exact. */
export function sizeText(bytes: number): string {
  for (const unit of ['Ti', 'Gi', 'Mi', 'Ki'] as const)
    if (bytes % units[unit] === 0) return `${bytes / units[unit]}${unit}`
  return String(bytes)
}
