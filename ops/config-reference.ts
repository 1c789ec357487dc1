import type { ConfigKey } from '../schemas/config/key.ts'
import { writeValue } from '../schemas/config/value.ts'
import { type ConfigName, configKeys, environmentName } from '../schemas/config.ts'

const head = `# Configuration

Every key, in the order of the registry (\`config.ts\`); \`npx busbar config --reference\` writes this page. A default is overridden by
\`application.yml\` (in the current folder, or \`--config=<path>\`; keys nested or dotted), that by the environment, that by
\`--key=value\`. \`npx busbar config\` shows the effective values and where each came from.

Times are written as \`1500\` (milliseconds), \`30s\`, \`5m\`, \`2h\`, \`7d\`; sizes as \`1048576\` (bytes), \`64KB\`, \`10MB\`, \`2GB\`.

| key | environment | default | meaning |
|---|---|---|---|
`

/** The page `schemas/CONFIG.md`. */
export function configReference(): string {
  const lines = (Object.keys(configKeys) as ConfigName[]).map((name) => {
    const key: ConfigKey = configKeys[name]
    const value = key.default === undefined ? 'none' : `\`${withUnit(key)}\``
    const note = key.secret ? ' (secret)' : ''
    return `| \`${name}\` | \`${environmentName(name)}\` | ${value} | ${key.doc}${note} |`
  })
  return `${head}${lines.join('\n')}\n`
}

const steps = {
  ms: [['d', 86_400_000], ['h', 3_600_000], ['m', 60_000], ['s', 1000]], // biome-ignore format: a table
  bytes: [['GB', 1024 ** 3], ['MB', 1024 ** 2], ['KB', 1024]], // biome-ignore format: a table
} as const

/** The default in the largest unit that leaves no rest. */
function withUnit(key: ConfigKey): string {
  const amount = Number(key.default)
  const step = key.unit === undefined ? undefined : steps[key.unit].find(([, size]) => amount % size === 0)
  return step === undefined ? writeValue(key.default) : `${amount / step[1]}${step[0]}`
}
