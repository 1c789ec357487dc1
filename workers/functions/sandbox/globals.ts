import { Blob, File, FormData } from './blob.ts'
import { structuredClone } from './clone.ts'
import { consoleObject } from './console.ts'
import { Crypto, CryptoKey, makeCrypto, SubtleCrypto } from './crypto.ts'
import { DOMException } from './dom-exception.ts'
import { atob, btoa, TextDecoder, TextEncoder } from './encoding.ts'
import { AbortController, AbortSignal, CustomEvent, Event, EventTarget } from './events.ts'
import { fetch } from './fetch.ts'
import { SilentRegistry } from './finalization.ts'
import { Headers } from './headers.ts'
import { ask } from './host.ts'
import { Request, Response } from './http.ts'
import { clock, construct, defineProperty, NativeArrayBuffer, NativeTypeError, objectKeys } from './intrinsics.ts'
import { report } from './log.ts'
import { clearTimer, microtask, setRepeating, setTimer } from './timers.ts'
import { URL, URLSearchParams } from './url.ts'

const classes = {
  AbortController,
  AbortSignal,
  Blob,
  Crypto,
  CryptoKey,
  CustomEvent,
  DOMException,
  Event,
  EventTarget,
  File,
  FinalizationRegistry: SilentRegistry,
  FormData,
  Headers,
  Request,
  Response,
  SubtleCrypto,
  TextDecoder,
  TextEncoder,
  URL,
  URLSearchParams,
}

const functions = {
  atob,
  btoa,
  clearInterval: (id?: unknown) => clearTimer(id),
  clearTimeout: (id?: unknown) => clearTimer(id),
  fetch,
  queueMicrotask: microtask,
  reportError: (error: unknown) => report('Uncaught', error),
  setInterval: setRepeating,
  setTimeout: setTimer,
  structuredClone,
}

const REMOVED = ['WebAssembly', 'SharedArrayBuffer', 'Atomics']

/** Puts the web's names on the global object and takes away what would let a function allocate past its limits. */
export function installGlobals(): void {
  const scope = globalThis as unknown as Record<string, unknown>
  for (const name of REMOVED) delete scope[name]
  defineAll(scope, functions, (name, made) => rename(made, name))
  defineAll(scope, classes, (name, made) => {
    rename(made, name)
    const value = { value: name, configurable: true }
    defineProperty((made as { prototype: object }).prototype, Symbol.toStringTag, value)
  })
  define(scope, 'ArrayBuffer', fixedArrayBuffer())
  define(scope, 'self', globalThis)
  define(scope, 'console', consoleObject)
  define(scope, 'crypto', makeCrypto())
  define(scope, 'navigator', Object.freeze({ userAgent: 'Busbar', language: 'en', hardwareConcurrency: 1 }))
  define(scope, 'performance', performanceObject())
}

function defineAll(scope: object, all: object, finish: (name: string, made: object) => void): void {
  for (const name of objectKeys(all)) {
    const made = (all as Record<string, object>)[name]!
    finish(name, made)
    define(scope, name, made)
  }
}

function define(scope: object, name: string, value: unknown): void {
  defineProperty(scope, name, { value, writable: true, configurable: true, enumerable: false })
}

/** Minifying takes the names away; they are part of what user code sees. */
function rename(made: object, name: string): void {
  defineProperty(made, 'name', { value: name, configurable: true })
}

function performanceObject(): object {
  const now = () => Number(ask('now', ''))
  let origin: number | undefined
  return Object.freeze({
    now: () => now(),
    get timeOrigin() {
      origin ??= clock() - now()
      return origin
    },
    toJSON: () => ({ timeOrigin: clock() - now() }),
  })
}

/** ArrayBuffer without `maxByteLength`: the memory of resizable buffers is not held to the isolate's limit. */
function fixedArrayBuffer(): unknown {
  const { prototype } = NativeArrayBuffer
  // biome-ignore lint/suspicious/noShadowRestrictedNames: it takes its place
  function ArrayBuffer(this: unknown, length?: unknown, options?: { maxByteLength?: unknown }): object {
    if (new.target === undefined) throw new NativeTypeError("Constructor ArrayBuffer requires 'new'")
    if (typeof options === 'object' && options !== null && options.maxByteLength !== undefined)
      throw new NativeTypeError('Resizable ArrayBuffers are not supported here')
    return construct(NativeArrayBuffer, [length], new.target)
  }
  rename(ArrayBuffer, 'ArrayBuffer')
  defineProperty(ArrayBuffer, 'length', { value: 1, configurable: true })
  defineProperty(ArrayBuffer, 'prototype', {
    value: prototype,
    writable: false,
    enumerable: false,
    configurable: false,
  })
  define(ArrayBuffer, 'isView', NativeArrayBuffer.isView)
  defineProperty(ArrayBuffer, Symbol.species, {
    get(this: unknown) {
      return this
    },
    configurable: true,
  })
  define(prototype, 'constructor', ArrayBuffer)
  delete (prototype as { resize?: unknown }).resize
  return ArrayBuffer
}
