/** Characters of a NATS token that need no escape; the percent sign is the escape. */
function token(name: string): string {
  return Buffer.from(name, 'utf8')
    .toString('latin1')
    .replace(/[^A-Za-z0-9_-]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
}

export function changeSubject(source: string, schema: string, table: string, operation: string): string {
  return `${tableSubject(source, schema, table)}.${operation}`
}

/** What the subjects of all changes of a table begin with. */
export function tableSubject(source: string, schema: string, table: string): string {
  return `cdc.${token(source)}.${token(schema)}.${token(table)}`
}

export function commandSubject(source: string): string {
  return `cdc.${token(source)}.command`
}

export function gapSubject(source: string): string {
  return `cdc.${token(source)}.gap`
}

/** Matches everything of a source. */
export function sourceSubjects(source: string): string {
  return `cdc.${token(source)}.>`
}
