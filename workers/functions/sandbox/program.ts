/**
 * How a function's compiled code becomes the script that an isolate runs.
 *
 * For whoever compiles (gateways/functions/compile.ts): `code` is a CommonJS script, what it exports is on `module.exports`,
 * and plain top-level declarations stay top-level declarations (esbuild `format: 'cjs'`, no `minifyIdentifiers`,
 * `keepNames: false`). Which function is the handler is decided in this order: `exports.handler`, a top-level `handler`,
 * `module.exports` when it is a function, `exports.default`, `exports.default.handler`. The prefix stands on the line of the
 * first line of code and adds no line, so a source map needs its columns shifted on line 1 only, by `PREFIX_COLUMNS`.
 */
const prefix = '(function(exports,require,module){'

/** Columns by which the first line of the code is shifted. */
export const PREFIX_COLUMNS = prefix.length

/** The file name that stack traces show for user code. */
export const PROGRAM_FILE = 'function.js'
/** The file name of the sandbox's own frames; they are cut from stacks. */
export const SANDBOX_FILE = 'busbar:sandbox'

/** The script whose completion value is the function that `GuestInterface.load` takes. */
export const wrapProgram = (code: string): string =>
  `${prefix}${code}\n;return typeof handler==='undefined'?void 0:handler})`
