import ivm from 'isolated-vm'
import { PROGRAM_FILE, SANDBOX_FILE } from '../sandbox/program.ts'

export type Entry = ivm.Reference<(...args: (string | number)[]) => string | number | undefined>

/** One isolate with the sandbox in it, before and after the program is loaded. */
export interface Guest {
  readonly isolate: ivm.Isolate
  readonly start: Entry
  readonly take: Entry
  readonly settle: Entry
  readonly fire: Entry
  /** Runs the program's top level; answers '' or a failure as a reply. */
  load(code: string, env: Readonly<Record<string, string>>, timeoutMs: number): Promise<string>
}

export interface GuestHooks {
  /** Never throws; what it answers is for the guest's own `op`. */
  readonly op: (name: unknown, argument: unknown) => string
  readonly begin: (id: unknown, name: unknown, argument: unknown, invocationId: unknown) => void
  /** V8 has lost the isolate; its thread never returns. */
  readonly onLost: () => void
}

/** What every isolate of this process is made with. */
export interface GuestMaker {
  readonly heapMb: number
  /** A script that evaluates to the installer of the sandbox. */
  readonly sandbox: string
  /** JSON, for the installer. */
  readonly limits: string
  /** Makes a script, on as many lines, that evaluates to a function which runs the program. */
  readonly wrap: (code: string) => string
}

let codeCache: ivm.ExternalCopy<ArrayBuffer> | undefined

/** A new isolate; takes some milliseconds of this thread, none of which is spent in the user's code. */
export function makeGuest({ heapMb, sandbox, limits, wrap }: GuestMaker, hooks: GuestHooks): Guest {
  const isolate = new ivm.Isolate({ memoryLimit: heapMb, onCatastrophicError: hooks.onLost })
  const context = isolate.createContextSync()
  const origin = { filename: SANDBOX_FILE }
  const script = isolate.compileScriptSync(
    sandbox,
    codeCache ? { ...origin, cachedData: codeCache } : { ...origin, produceCachedData: true },
  )
  codeCache ??= (script as { cachedData?: ivm.ExternalCopy<ArrayBuffer> }).cachedData
  const installer = script.runSync(context, { reference: true }) as ivm.Reference<(...args: unknown[]) => object>
  script.release()
  const op = new ivm.Callback(hooks.op)
  const begin = new ivm.Callback(hooks.begin, { ignored: true })
  const face = installer.applySync(undefined, [op, begin, limits] as never[], { result: { reference: true } })
  installer.release()
  const entry = (name: string) => face.getSync(name as never, { reference: true }) as unknown as Entry
  const load = entry('load')
  const guest = { isolate, start: entry('start'), take: entry('take'), settle: entry('settle'), fire: entry('fire') }
  return {
    ...guest,
    async load(code, env, timeoutMs) {
      const compiled = await isolate.compileScript(wrap(code), { filename: PROGRAM_FILE })
      const program = await compiled.run(context, { reference: true, timeout: timeoutMs })
      compiled.release()
      const answer = await load.apply(undefined, [program.derefInto({ release: true }), JSON.stringify(env)] as never, {
        timeout: timeoutMs,
      })
      load.release()
      context.release()
      return String(answer)
    },
  }
}
