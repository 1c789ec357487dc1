import { build, type Message, type Plugin, transform } from 'esbuild'
import { Rejected } from '../../schemas/failure.ts'

export interface Compiled {
  /** A script without ESM syntax: what it exports is on `module.exports`. */
  readonly code: string
  /** JSON, without the source. */
  readonly sourceMap: string
  /** Whether it names a handler; only running it tells for sure. */
  readonly hasHandler: boolean
}

/**
 * Compiles the source of a function, JavaScript or TypeScript, ESM or CommonJS.
 *
 * @throws {Rejected} `functions/does-not-compile`; the text has line and column, from 1.
 */
export async function compile(source: string): Promise<Compiled> {
  try {
    // Bundling finds modules that cannot be had, and takes some milliseconds more.
    const { code, map } = mayImport.test(source)
      ? await bundled(source)
      : await transform(source, { ...options, loader })
    return { code, sourceMap: map, hasHandler: namesHandler(code) }
  } catch (error) {
    const [first] = (error as { errors?: readonly Message[] }).errors ?? []
    if (first === undefined) throw error
    throw new Rejected('functions/does-not-compile', described(first), { cause: error })
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

async function bundled(source: string): Promise<{ readonly code: string; readonly map: string }> {
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

function described({ text, location }: Message): string {
  if (location === null) return text
  // esbuild counts columns in bytes, from 0.
  const before = Buffer.from(location.lineText, 'utf8').subarray(0, location.column).toString('utf8')
  return `${text} (line ${location.line}, column ${before.length + 1})`
}

function namesHandler(code: string): boolean {
  return /\bhandler\b|\bdefault:|\bexports\.default\b|\bmodule\.exports\s*=/.test(code)
}
