import type { Bus } from '../bus/connect.ts'
import { asking } from '../bus/publish.ts'
import type { KeyRing } from '../bus/sealed.ts'

/** Something of the platform that is sealed, and how it is sealed anew. */
export interface SealedKind {
  /** For people, in the plural. */
  readonly name: string
  readonly stream: string
  /** What the subjects of its aggregates begin with. */
  readonly prefix: string
  /** The keys that an aggregate's secrets lie under. @throws {BusUnavailable} */
  keyIds(bus: Bus, subject: string): Promise<readonly string[]>
  /** Whether there was something to do; decided anew when somebody else is faster. @throws {SealBroken}; {BusUnavailable} */
  reseal(bus: Bus, ring: KeyRing, subject: string): Promise<boolean>
}

/** All aggregates of a kind, the deleted ones too. @throws {BusUnavailable} */
export async function subjectsOf(bus: Bus, { stream, prefix }: SealedKind): Promise<readonly string[]> {
  const query = { subjects_filter: `${prefix}*` }
  const { state } = await asking(bus, () => bus.manager.streams.info(stream, query))
  return Object.keys(state.subjects ?? {})
}
