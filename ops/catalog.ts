import { introspect } from '../gateways/data/postgres-introspect.ts'
import type { Renamed } from '../gateways/graphql/naming.ts'
import { namesOf } from '../gateways/graphql/naming.ts'
import { buildSchema } from '../gateways/graphql/schema.ts'
import type { Config } from '../schemas/config.ts'
import { connectOnce, datasource } from './datasource.ts'
import { OperatorError } from './local/operator-error.ts'

/** What the GraphQL API makes of a database. */
export interface CatalogListing {
  readonly tables: readonly {
    readonly schema: string
    readonly name: string
    readonly kind: string
    /** The object type. */
    readonly type: string
    /** The list; connection, aggregate and changes are called after it. */
    readonly field: string
    /** GraphQL names, by the names of the database. */
    readonly columns: Readonly<Record<string, string>>
    readonly relations: Readonly<Record<string, string>>
  }[]
  /** Names that could not stay as they are. */
  readonly renamed: readonly Renamed[]
}

/**
 * Reads the catalog of the served database, and names it as the GraphQL API does.
 * @throws {OperatorError} when no database is configured or it cannot be reached
 */
export async function listCatalog(config: Config): Promise<CatalogListing> {
  const connection = datasource(config, 'spring.datasource')
  if (connection === undefined)
    throw new OperatorError('There is no database to list: set spring.datasource.url (see busbar catalog --help).')
  const client = await connectOnce(connection, 'spring.datasource.url')
  try {
    const schemas = config['app.schemas']
    const catalog = await introspect(client, schemas.includes('ALL') ? 'ALL' : schemas)
    const { naming } = buildSchema(catalog, { naming: config['app.graphql.naming'], changes: false })
    const exposed = [...catalog.tables.values()].filter(({ columns }) => columns.length > 0)
    const tables = exposed.map((table) => {
      const { type, field, columns, relations } = namesOf(naming, table)
      const { schema, name, kind } = table
      return {
        schema,
        name,
        kind,
        type,
        field,
        columns: Object.fromEntries(columns),
        relations: Object.fromEntries(relations),
      }
    })
    return { tables, renamed: naming.renamed }
  } finally {
    await client.end()
  }
}

/** For people: a line a table, then a line a name that could not stay. */
export function shownCatalog({ tables, renamed }: CatalogListing): string {
  const lines = columnsOf([
    ['TABLE', 'KIND', 'TYPE', 'FIELD'],
    ...tables.map(({ schema, name, kind, type, field }) => [`${schema}.${name}`, kind, type, field]),
  ])
  if (tables.length === 0) lines.push('(none: look at app.schemas, and at the rights of the user)')
  if (renamed.length === 0) return `${lines.join('\n')}\n\nEvery name is as in the database.\n`
  const others = columnsOf([
    ['WHAT', 'IN THE DATABASE', 'IN GRAPHQL', 'BECAUSE'],
    ...renamed.map(({ what, name, as, because }) => [what, name, as, because]),
  ])
  return `${lines.join('\n')}\n\nNames that could not stay (${renamed.length}):\n${others.join('\n')}\n`
}

function columnsOf(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, at) => Math.max(...rows.map((row) => row[at]!.length)))
  return rows.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at]!))
      .join('  ')
      .trimEnd(),
  )
}
