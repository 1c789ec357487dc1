import type { Json } from './openapi-types.ts'

/** OpenAPI allows these in the name of a component; everything else becomes `_`. */
const illegal = /[^A-Za-z0-9._-]+/gu

function legalName(name: string): string {
  return name.replace(illegal, '_')
}

export function isLegalName(name: string): boolean {
  return legalName(name) === name
}

/**
 * Names, each given once: of those that would be the same, the later ones get a number. What is legal as it is should come first, so
 * that it stays as it is.
 */
export class UniqueNames {
  readonly #taken: Set<string>

  constructor(reserved: Iterable<string> = []) {
    this.#taken = new Set(reserved)
  }

  /** @param suffixes of names that belong to this one and are taken with it */
  take(wanted: string, suffixes: readonly string[] = []): string {
    const stem = legalName(wanted)
    for (let number = 1; ; number++) {
      const name = number === 1 ? stem : `${stem}_${number}`
      const all = [name, ...suffixes.map((suffix) => name + suffix)]
      if (all.some((one) => this.#taken.has(one))) continue
      for (const one of all) this.#taken.add(one)
      return name
    }
  }
}

/** One kind of components of a document: what is said once and referred to from many places. */
export class Components {
  readonly all: Record<string, Json>
  readonly names: UniqueNames
  readonly #section: string

  constructor(
    section: 'schemas' | 'parameters' | 'responses' | 'examples' | 'requestBodies',
    fixed: Readonly<Record<string, Json>> = {},
  ) {
    this.#section = section
    this.all = { ...fixed }
    this.names = new UniqueNames(Object.keys(fixed))
  }

  /** @returns the reference to it */
  add(wanted: string, component: Json): Json {
    const name = this.names.take(wanted)
    this.all[name] = component
    return this.reference(name)
  }

  reference(name: string): Json {
    return { $ref: `#/components/${this.#section}/${name}` }
  }
}

/** All that operations share. */
export interface Shared {
  readonly parameters: Components
  readonly responses: Components
  readonly examples: Components
  readonly requestBodies: Components
}
