import { Rejected } from '../../schemas/failure.ts'
import { type Catalog, type Relation, type Table, tableKey } from './catalog.ts'
import { hinted, perhaps, shown } from './suggestion.ts'

/**
 * The relation of that name, alias, or target table.
 * @throws {Rejected} `data/unknown-relation`; with several of the name, the choices.
 */
export function relationOf(table: Table, name: string, place: string): Relation {
  const found = findRelations(table, name)
  if (found.length === 1) return found[0]!
  if (found.length > 1) {
    const choices = found.map((relation) => relation.name)
    throw new Rejected('data/unknown-relation', `${place}: ${table.name} has several relations to ${shown(name)}`, {
      details: { field: place, choices },
      hint: `name one of ${choices.join(', ')}`,
    })
  }
  throw new Rejected('data/unknown-relation', `${place}: ${table.name} has no relation ${shown(name)}`, {
    details: {
      field: place,
      table: table.name,
      relations: table.relations.slice(0, 50).map((relation) => relation.name),
    },
    ...hinted(perhaps(name, table.relationByName.keys())),
  })
}

export function hasRelation(table: Table, name: string): boolean {
  return findRelations(table, name).length > 0
}

function findRelations(table: Table, name: string): readonly Relation[] {
  const exact = table.relationByName.get(name)
  if (exact) return [exact]
  const aliased = table.relations.filter((relation) => relation.aliases.includes(name))
  return aliased.length > 0 ? aliased : table.relations.filter((relation) => relation.targetTable === name)
}

export function targetOf(catalog: Catalog, relation: Relation): Table {
  const target = catalog.tables.get(tableKey(relation.targetSchema, relation.targetTable))
  if (target) return target
  throw new Rejected('data/unknown-relation', `The table ${shown(relation.targetTable)} is not exposed`)
}
