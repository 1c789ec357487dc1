import { registerHooks } from 'node:module'

const url = new URL('./plugin-api.ts', import.meta.url).href

// Plugins lie anywhere on the disk, where no package of this name is.
registerHooks({
  resolve(specifier, context, next) {
    return specifier === 'busbar/plugin' ? { url, shortCircuit: true } : next(specifier, context)
  },
})
