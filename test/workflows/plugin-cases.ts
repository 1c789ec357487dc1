import type t from 'tap'
import { callPlugin, failure } from './call-plugin.ts'

type Tap = Pick<typeof t, 'match' | 'rejects'>
export type Given = Record<string, unknown>
/** A plugin without its prefix, its properties, and what the outputs hold. */
export type Right = readonly (readonly [string, Given, Given])[]
/** A plugin, its properties, and why it refuses them. */
export type Wrong = readonly (readonly [string, Given, RegExp])[]

/** Calls of the plugins of a family, and tables of them. */
export function pluginsOf(family: 'transform' | 'util') {
  const call = (name: string, properties: Given, signal?: AbortSignal) => {
    return callPlugin(`${family}.${name}`, properties, signal === undefined ? {} : { signal })
  }
  const titleOf = (name: string, properties: Given) => `${name} ${JSON.stringify(properties).slice(0, 100)}`
  return {
    call,
    async give(t: Tap, right: Right) {
      for (const [name, properties, outputs] of right)
        t.match(await call(name, properties), outputs, titleOf(name, properties))
    },
    async refuse(t: Tap, wrong: Wrong) {
      for (const [name, properties, why] of wrong)
        await t.rejects(call(name, properties), failure('refused', why), titleOf(name, properties))
    },
  }
}

/** For `JSON.stringify`: members in the order of their names. */
export function sorted(_key: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
