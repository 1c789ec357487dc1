import { build, type Message, type Plugin, stop, transform } from 'esbuild'
import { Rejected } from '../../schemas/failure.ts'
import { earlyError } from './early-errors.ts'
import { mayHaveHandler } from './exported-handler.ts'

export interface Compiled {
  /** A script without ESM syntax: what it exports is on `module.exports`. */
  readonly code: string
  /** JSON, without the source. */
  readonly sourceMap: string
  /** Whether it seems to have a handler; only running it tells for sure. */
  readonly hasHandler: boolean
}

/**
 * Compiles the source of a function, JavaScript or TypeScript, ESM or CommonJS. `timeoutMs`: what takes the compiler longer is refused.
 *
 * @throws {Rejected} `functions/does-not-compile`; the text has line and column, from 1.
 */
export async function compile(source: string, timeoutMs = maxCompileMs): Promise<Compiled> {
  refuseDepth(source)
  const { code: compiled, map: sourceMap } = await compiling(source, timeoutMs).catch((error: unknown) => {
    if (error instanceof TooSlow) throw new Rejected('functions/does-not-compile', error.message, { cause: error })
    const [first] = messagesOf(error)
    throw new Rejected('functions/does-not-compile', first === undefined ? tooMuch : described(first), { cause: error })
  })
  const code = compiled.replace(hashbang, '')
  const mistake = earlyError(code, sourceMap)
  if (mistake !== null) throw new Rejected('functions/does-not-compile', mistake)
  return { code, sourceMap, hasHandler: mayHaveHandler(code) }
}

/** Stands at the beginning of a file only, which the code of a function is not for long. */
const hashbang = /^#!.*/

const tooMuch = 'The source is more than the compiler can take: it is nested too deeply'
const maxDepth = 2_000
/** Most take a few milliseconds; for some shapes of code the compiler's time grows with the square of their length. */
const maxCompileMs = 10_000
const opening = /[([{]/
const brackets = /[()[\]{}]/g

/** The compiler's process ends of what is nested too deeply, and takes a gigabyte before. Brackets in texts are counted, too. */
function refuseDepth(source: string): void {
  let depth = 0
  for (const [bracket] of source.matchAll(brackets)) {
    if (!opening.test(bracket)) depth = Math.max(0, depth - 1)
    else if (++depth > maxDepth) {
      throw new Rejected('functions/does-not-compile', `The source has brackets nested deeper than ${maxDepth}`)
    }
  }
}

const messagesOf = (error: unknown): readonly Message[] =>
  (error as { errors?: readonly Message[] } | null)?.errors ?? []

/** What is compiled by itself, one after the other, because the compiler's process has ended. */
let alone: Promise<unknown> = Promise.resolve()
let waiting = 0

/** All compiles share a process. One that it ends with takes the others with it: all are tried once more, each by itself. */
async function compiling(source: string, timeoutMs: number): Promise<Output> {
  if (waiting === 0) {
    try {
      return await transformed(source, timeoutMs)
    } catch (error) {
      if (isItsOwn(error)) throw error
    }
  }
  waiting += 1
  const turn = alone.then(() => restarted(source, timeoutMs))
  alone = turn.catch(() => undefined)
  return await turn.finally(() => {
    waiting -= 1
  })
}

async function restarted(source: string, timeoutMs: number): Promise<Output> {
  try {
    return await transformed(source, timeoutMs)
  } catch (error) {
    if (isItsOwn(error)) throw error
    // It may have ended of another one: this is the first try in a process of its own.
    await stop()
  }
  try {
    return await transformed(source, timeoutMs)
  } catch (error) {
    if (!isItsOwn(error)) await stop()
    throw error
  }
}

/** No other one's doing. */
const isItsOwn = (error: unknown): boolean => messagesOf(error).length > 0 || error instanceof TooSlow

class TooSlow extends Error {
  override readonly name = 'TooSlow'
}

interface Output {
  readonly code: string
  readonly map: string
}

/** Bundling finds modules that cannot be had, and takes some milliseconds more. */
async function transformed(source: string, timeoutMs: number): Promise<Output> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    reject(new TooSlow(`The source takes longer to compile than ${timeoutMs} ms`))
    // Nothing else makes it give up.
    void stop()
  }, timeoutMs)
  const work = mayImport.test(source) ? bundled(source) : transform(source, { ...options, loader })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

const mayImport = /\b(?:import|require|from)\b/
const loader = 'ts'
const sourcefile = 'function.ts'

const options = {
  format: 'cjs',
  platform: 'neutral',
  target: 'es2024',
  treeShaking: false,
  legalComments: 'none',
  charset: 'utf8',
  sourcemap: 'external',
  sourcesContent: false,
  logLevel: 'silent',
  sourcefile,
  // Nothing of the machine's own settings.
  tsconfigRaw: { compilerOptions: { experimentalDecorators: true, useDefineForClassFields: true } },
} as const

async function bundled(source: string): Promise<Output> {
  const { sourcefile, ...rest } = options
  const stdin = { contents: source, loader, sourcefile } as const
  const { outputFiles } = await build({
    ...rest,
    stdin,
    bundle: true,
    write: false,
    outdir: 'out',
    plugins: [noModules],
  })
  const text = (end: string) => outputFiles.find(({ path }) => path.endsWith(end))?.text ?? ''
  return { code: text('.js'), map: text('.map') }
}

/** Only what the sandbox gives is there. */
const noModules: Plugin = {
  name: 'no-modules',
  setup(building) {
    building.onResolve({ filter: /.*/ }, ({ path, kind }) => {
      if (kind === 'entry-point') return undefined
      return {
        errors: [{ text: `A function cannot import modules ("${path}"): put all its code in one source` }],
      }
    })
  },
}

function described({ text: given, location }: Message): string {
  // It speaks of what the source is made into.
  const text = given.startsWith('Top-level await') ? 'await may be used inside of async functions only' : given
  if (location === null) return text
  // esbuild counts columns in bytes, from 0.
  const before = Buffer.from(location.lineText, 'utf8').subarray(0, location.column).toString('utf8')
  return `${text} (line ${location.line}, column ${before.length + 1})`
}
