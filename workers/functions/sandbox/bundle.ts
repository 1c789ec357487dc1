import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

let bundled: Promise<string> | undefined

/**
 * The sandbox as one script (name it `SANDBOX_FILE`): evaluate it in a fresh context before any user code; its completion
 * value is the installer, a function `(op, begin, limitsJson) => GuestInterface`. Built once a process.
 */
export function sandboxSource(): Promise<string> {
  bundled ??= bundle()
  return bundled
}

async function bundle(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('main.ts', import.meta.url))],
    bundle: true,
    write: false,
    format: 'cjs',
    // An expression, so that the script's completion value is the installer; strict, so that no frame shows its function.
    banner: { js: '(function(module){"use strict";' },
    footer: { js: 'return module.exports.install})({exports:{}})' },
    platform: 'neutral',
    target: 'es2024',
    minify: true,
    // Names of functions and classes are what user code sees of them.
    keepNames: false,
    charset: 'ascii',
    legalComments: 'none',
  })
  return outputFiles[0]!.text
}
