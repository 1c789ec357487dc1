import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { loadMessage } from '../../bus/load.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import {
  type DeployedFact,
  type EnvSetFact,
  type FunctionFact,
  functionAggregate,
} from '../../schemas/functions/function.ts'
import type { CallTarget } from '../../schemas/functions/target.ts'

/** What an isolate is made of. */
export interface Program {
  /** A script without ESM syntax. */
  readonly code: string
  /** JSON. */
  readonly sourceMap: string | null
  /** Variables and opened secrets. */
  readonly env: Readonly<Record<string, string>>
}

/** The message that a call points to is not there: the call came from another bus, or the stream was lost. */
class ProgramMissing extends Error {
  override readonly name = 'ProgramMissing'
}

const stream = 'EVT_FUNCTIONS'
const maxCodeBytes = 64 * 1024 * 1024

/**
 * The programs of calls, each read once by its place in the stream. Secrets are opened for each isolate anew and kept nowhere.
 *
 * `load` throws {ProgramMissing} when there is no such program; {SealBroken} when a secret's key is missing; {BusUnavailable}.
 */
export function programs(bus: Bus, keys: KeyRing | null): { load(call: CallTarget): Promise<Program> } {
  const cache = new LRUCache<number, { readonly code: string; readonly sourceMap: string }>({
    maxSize: maxCodeBytes,
    sizeCalculation: ({ code, sourceMap }) => code.length + sourceMap.length + 1,
  })
  const read = async (call: CallTarget) => {
    const known = cache.get(call.seq)
    if (known !== undefined) return known
    const fact = await factAt(bus, call, call.seq, 'functions.function.deployed')
    const { code, sourceMap } = (fact as DeployedFact).data
    cache.set(call.seq, { code, sourceMap })
    return { code, sourceMap }
  }
  return {
    async load(call) {
      const [program, env] = await Promise.all([read(call), call.envSeq === null ? {} : readEnv(bus, keys, call)])
      return { ...program, env }
    },
  }
}

async function readEnv(bus: Bus, keys: KeyRing | null, call: CallTarget): Promise<Record<string, string>> {
  const fact = await factAt(bus, call, call.envSeq ?? 0, 'functions.function.env-set')
  const { variables, secrets } = (fact as EnvSetFact).data
  const opened = Object.entries(secrets).map(([name, sealed]) => {
    if (keys === null) throw new ProgramMissing(`${call.fn} has secrets, and app.secrets.keys is not set`)
    return [name, keys.open(sealed, `functions.function/${call.fn}/env/`)] as const
  })
  // Not by assignment: a name may be `__proto__`.
  return { ...variables, ...Object.fromEntries(opened) }
}

async function factAt(
  bus: Bus,
  { fn }: CallTarget,
  sequence: number,
  type: FunctionFact['type'],
): Promise<FunctionFact> {
  const message = await loadMessage(bus, functionAggregate.events, stream, sequence)
  const fact = message?.facts.find((each) => each.type === type && each.data.functionId === fn)
  if (fact === undefined) throw new ProgramMissing(`Message ${sequence} of ${stream} is no ${type} of ${fn}`)
  return fact
}
