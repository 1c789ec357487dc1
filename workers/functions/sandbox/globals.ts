import { consoleObject } from './console.ts'
import { defineProperty } from './intrinsics.ts'
import { clearTimer, microtask, setRepeating, setTimer } from './timers.ts'

/** Puts the web's names on the global object and takes away what would let a function allocate past its limits. */
export function installGlobals(): void {
  const scope = globalThis as unknown as Record<string, unknown>
  for (const name of ['WebAssembly', 'SharedArrayBuffer', 'Atomics']) delete scope[name]
  define(scope, 'self', globalThis)
  define(scope, 'console', consoleObject)
  define(scope, 'setTimeout', setTimer)
  define(scope, 'setInterval', setRepeating)
  define(scope, 'clearTimeout', clearTimer)
  define(scope, 'clearInterval', clearTimer)
  define(scope, 'queueMicrotask', microtask)
}

function define(scope: object, name: string, value: unknown): void {
  defineProperty(scope, name, { value, writable: true, configurable: true, enumerable: false })
}
