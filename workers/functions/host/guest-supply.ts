import { type Guest, type GuestHooks, type GuestMaker, makeGuest } from './guest.ts'

/** How long the process has been without a new isolate when another is made in advance. */
const quietMs = 20

interface Spare {
  readonly guest: Guest
  bind(hooks: GuestHooks): void
}

/** Isolates with the sandbox in them, one of which is ready, so that the first call of a function need not wait for it. */
export class GuestSupply {
  readonly #maker: GuestMaker
  #spare: Spare | null = null
  #timer: NodeJS.Timeout | undefined

  constructor(maker: GuestMaker) {
    this.#maker = maker
    this.#prepareSoon()
  }

  /** Takes some milliseconds when none is ready. */
  take(hooks: GuestHooks): Guest {
    this.#prepareSoon()
    const spare = this.#spare
    this.#spare = null
    if (spare === null) return makeGuest(this.#maker, hooks)
    spare.bind(hooks)
    return spare.guest
  }

  #prepareSoon(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#spare ??= this.#make()
    }, quietMs)
  }

  #make(): Spare {
    let bound = unbound
    const guest = makeGuest(this.#maker, {
      op: (name, argument) => bound.op(name, argument),
      begin: (...asked) => bound.begin(...asked),
      onLost: () => {
        if (this.#spare?.guest === guest) this.#spare = null
        bound.onLost()
      },
    })
    return {
      guest,
      bind(hooks) {
        bound = hooks
      },
    }
  }
}

/** No code of a user's is there to ask for anything. */
const unbound: GuestHooks = {
  op: () => '!{"name":"Error","message":"The sandbox is not in use"}',
  begin: () => {},
  onLost: () => {},
}
