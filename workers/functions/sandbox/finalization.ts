/**
 * Never calls back, as the language allows. The engine would call when it has swept memory, in the host's own thread: code that belongs to
 * no call, and that no time-out ends.
 */
export class SilentRegistry {
  constructor(cleanup: unknown) {
    if (typeof cleanup !== 'function') throw new TypeError('FinalizationRegistry: cleanup must be callable')
  }
  register(target: unknown, held?: unknown): void {
    if ((typeof target !== 'object' || target === null) && typeof target !== 'function' && typeof target !== 'symbol')
      throw new TypeError('FinalizationRegistry.prototype.register: invalid target')
    if (target === held)
      throw new TypeError('FinalizationRegistry.prototype.register: target and holdings must not be same')
  }
  unregister(): boolean {
    return false
  }
}
