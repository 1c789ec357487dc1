import { readdir, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { pluginProblems } from './check-plugin.ts'
import type { Plugin } from './plugin.ts'

export type OwnPluginObservation =
  | { readonly type: 'plugin-added' | 'plugin-removed'; readonly plugin: string; readonly source: string }
  | { readonly type: 'plugin-refused'; readonly source: string; readonly error: unknown }
  | { readonly type: 'plugins-not-published'; readonly error: unknown }

interface OwnPluginOptions {
  /** Folders, or names of npm packages. */
  readonly sources: readonly string[]
  /** Those of the platform, whose ids stay theirs; the users' own are put in and taken out. */
  readonly plugins: Map<string, Plugin>
  /** Tells others; called again until it succeeds. `gone` are ids that were there before. */
  readonly publish: (plugins: readonly Plugin[], gone: readonly string[]) => Promise<void>
  readonly onObservation: (observation: OwnPluginObservation) => void
}

interface Module {
  readonly source: string
  /** Changes when the file does. */
  readonly version: string
  readonly plugins: readonly Plugin[]
}

const scanMs = 1_000

/** Plugins of the users' own: files of folders, which are looked at again and again, and packages, which are imported once. */
export class OwnPlugins {
  readonly #options: OwnPluginOptions
  readonly #modules = new Map<string, Module>()
  readonly #taken: ReadonlySet<string>
  readonly #offered = new Set<string>()
  readonly #gone = new Set<string>()
  readonly #stopping = new AbortController()
  #published = true
  #watching: Promise<void> = Promise.resolve()

  constructor(options: OwnPluginOptions) {
    this.#options = options
    this.#taken = new Set(options.plugins.keys())
  }

  /** Resolves when all that is there now is offered. */
  async start(): Promise<void> {
    if (this.#options.sources.length === 0) return
    await import('./plugin-import.ts')
    await this.#scan()
    this.#watching = this.#watch()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#watching
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await delay(scanMs, undefined, { signal }).catch(() => undefined)
      if (!signal.aborted) await this.#scan()
    }
  }

  async #scan(): Promise<void> {
    const found = (await Promise.all(this.#options.sources.map((source) => filesOf(source)))).flat()
    const there = new Set(found.map(({ path }) => path))
    for (const path of this.#modules.keys()) if (!there.has(path)) this.#modules.delete(path)
    for (const { path, version, fault } of found) {
      if (this.#modules.get(path)?.version === version) continue
      await this.#load(path, version, fault)
    }
    this.#offer()
    if (!this.#published) await this.#publish()
  }

  /** One that cannot be loaded leaves what its file held before as it was. */
  async #load(path: string, version: string, fault: unknown): Promise<void> {
    const before = this.#modules.get(path)?.plugins ?? []
    try {
      if (fault !== null) throw fault
      const exported = (await import(`${pathToFileURL(path).href}?version=${version}`)) as Record<string, unknown>
      const plugins = Object.values(exported).filter(isPlugin)
      if (plugins.length === 0) throw new Error('It exports nothing that definePlugin gives')
      for (const plugin of plugins) this.#check(path, plugin)
      this.#modules.set(path, { source: path, version, plugins })
    } catch (error) {
      this.#modules.set(path, { source: path, version, plugins: before })
      this.#options.onObservation({ type: 'plugin-refused', source: path, error })
    }
  }

  #check(path: string, plugin: Plugin): void {
    const { id, category } = plugin.manifest
    const problems = [...pluginProblems(plugin)]
    if (category !== 'Custom') problems.push('its category has to be Custom')
    if (this.#taken.has(id)) problems.push('a plugin of the platform has this id')
    const other = [...this.#modules].find(([place, { plugins }]) => place !== path && plugins.some(hasId(id)))
    if (other !== undefined) problems.push(`another file has this id: ${other[0]}`)
    if (problems.length > 0) throw new Error(`${id}: ${problems.join('; ')}`)
  }

  #offer(): void {
    const now = new Map<string, readonly [Plugin, string]>()
    for (const { plugins, source } of this.#modules.values()) {
      for (const plugin of plugins) now.set(plugin.manifest.id, [plugin, source])
    }
    for (const [id, [plugin, source]] of now) {
      if (this.#options.plugins.get(id) === plugin) continue
      this.#options.plugins.set(id, plugin)
      this.#offered.add(id)
      this.#gone.delete(id)
      this.#published = false
      this.#options.onObservation({ type: 'plugin-added', plugin: id, source })
    }
    for (const id of this.#offered) {
      if (now.has(id)) continue
      this.#offered.delete(id)
      this.#options.plugins.delete(id)
      this.#gone.add(id)
      this.#published = false
      this.#options.onObservation({ type: 'plugin-removed', plugin: id, source: '' })
    }
  }

  async #publish(): Promise<void> {
    try {
      const { plugins, publish } = this.#options
      await publish(
        [...this.#offered].map((id) => plugins.get(id)!),
        [...this.#gone],
      )
      this.#gone.clear()
      this.#published = true
    } catch (error) {
      this.#options.onObservation({ type: 'plugins-not-published', error })
    }
  }
}

const hasId = (id: string) => (plugin: Plugin) => plugin.manifest.id === id

function isPlugin(value: unknown): value is Plugin {
  const { manifest, input, run } = (value ?? {}) as Partial<Plugin>
  return [manifest, input].every((each) => typeof each === 'object' && each !== null) && typeof run === 'function'
}

interface Found {
  readonly path: string
  readonly version: string
  /** Why it cannot be imported at all. */
  readonly fault: unknown
}

/** A path is a folder's; any other name is a package's, as it resolves from the folder that we run in. */
async function filesOf(source: string): Promise<readonly Found[]> {
  const folder = resolve(source)
  if (/^[./~]|[\\]|^[A-Za-z]:/.test(source) || (await isFolder(folder))) return await filesIn(folder)
  try {
    return [{ path: createRequire(join(resolve(), 'plugins.js')).resolve(source), version: '1', fault: null }]
  } catch (fault) {
    return [{ path: folder, version: '0', fault }]
  }
}

/** Its tests, and what begins with a dot or an underscore, are no plugins. */
async function filesIn(folder: string): Promise<readonly Found[]> {
  const names = await readdir(folder).catch(() => [])
  const wanted = names.filter((name) => /^[^._].*\.m?[jt]s$/.test(name) && !/\.(test|spec|d)\.m?[jt]s$/.test(name))
  const found = await Promise.all(
    wanted.sort().map(async (name) => {
      const path = join(folder, name)
      const status = await stat(path).catch(() => null)
      return status?.isFile() === true ? { path, version: `${status.mtimeMs}-${status.size}`, fault: null } : null
    }),
  )
  return found.filter((each) => each !== null)
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isDirectory() === true
}
