import { offThread, type ThreadOptions } from './off-thread.ts'

type Work = (argument: never) => unknown

/**
 * The functions of a module, called by name in a thread of their own; see `offThread`.
 *
 * @param url of a module whose functions take one argument, which is copied, and give what can be copied
 */
export function threadModule<Module>(url: URL) {
  return async <Name extends keyof Module & string>(
    { signal }: { readonly signal: AbortSignal },
    call: Name,
    argument: Module[Name] extends Work ? Parameters<Module[Name]>[0] : never,
    options: ThreadOptions = {},
  ): Promise<Module[Name] extends Work ? Awaited<ReturnType<Module[Name]>> : never> => {
    return await offThread({ module: url.href, call, argument }, signal, options)
  }
}
