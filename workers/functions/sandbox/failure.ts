import { apply, indexOf, join, jsonStringify, NativeError, push, slice, split, toText } from './intrinsics.ts'
import { SANDBOX_FILE } from './program.ts'

const MAX_MESSAGE = 8_192
const MAX_STACK = 16_384

type FailureCode = 'no-handler' | 'threw' | 'unserialisable' | 'output-too-large'

/** A refusal of the sandbox itself, with its code; everything else that is thrown is the user's. */
export class Refusal extends NativeError {
  readonly code: FailureCode
  constructor(code: FailureCode, message: string) {
    super(message)
    this.code = code
  }
}

/** The reply for what was thrown. Getters of the thrown value run here, inside the call's limits. */
export function failureReply(thrown: unknown): string {
  const refusal = isRefusal(thrown)
  const { message, stack } = described(thrown)
  return jsonStringify({ __proto__: null, ok: false, code: refusal ?? 'threw', message, stack: refusal ? null : stack })
}

function isRefusal(thrown: unknown): FailureCode | null {
  try {
    return thrown instanceof Refusal ? thrown.code : null
  } catch {
    return null
  }
}

/** Message and stack of anything that was thrown, never throwing itself. */
export function described(thrown: unknown): { readonly message: string; readonly stack: string | null } {
  let message = ''
  let stack: string | null = null
  try {
    if (typeof thrown === 'object' && thrown !== null) {
      const { message: own } = thrown as { message?: unknown }
      message = typeof own === 'string' ? own : (jsonStringify(thrown) ?? 'an object was thrown')
      const { stack: trace } = thrown as { stack?: unknown }
      if (typeof trace === 'string') stack = ownFrames(slice(trace, 0, MAX_STACK))
    } else message = typeof thrown === 'symbol' ? apply(symbolText, thrown, []) : toText(thrown)
  } catch {
    message = message === '' ? 'a value was thrown that cannot be described' : message
  }
  return { message: slice(message, 0, MAX_MESSAGE), stack }
}

const symbolText = Symbol.prototype.toString as () => string

/** The stack without the sandbox's own frames. */
export function ownFrames(stack: string): string {
  const lines = split(stack, '\n')
  const kept: string[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] as string
    if (indexOf(line, SANDBOX_FILE) < 0) push(kept, line)
  }
  return join(kept, '\n')
}
