/** What a projectName and an orgId look like. Never rewritten: what does not fit is refused. */
export const projectNamePattern = '^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$'
const maxNamespaceLength = 63

/** The namespace of an instance; null when it would be too long. */
export function namespaceOf(orgId: string, projectName: string): string | null {
  const namespace = `${orgId}-${projectName}`
  return namespace.length <= maxNamespaceLength ? namespace : null
}

const identifier = /^[a-z_][a-z0-9_]{0,62}$/
/** Theirs of the server, of the platform, or of the SQL standard. */
const reservedUsers = new Set([
  'postgres',
  'root',
  'mysql',
  'admin',
  'public',
  'none',
  'user',
  'current_user',
  'session_user',
])
const reservedDatabases = new Set([
  'postgres',
  'template0',
  'template1',
  'mysql',
  'information_schema',
  'performance_schema',
  'sys',
  'local',
  'config',
])

/** What is wrong with a master user's name; null when nothing is. */
export function userNameMistake(name: string): string | null {
  if (!identifier.test(name)) return 'must be 1 to 63 of a-z, 0-9 and _, and not begin with a digit'
  if (name.startsWith('pg_') || name.startsWith('busbar_') || reservedUsers.has(name)) return 'is a reserved name'
  return null
}

/** What is wrong with a database's name; null when nothing is. */
export function databaseNameMistake(name: string): string | null {
  if (!identifier.test(name)) return 'must be 1 to 63 of a-z, 0-9 and _, and not begin with a digit'
  if (name.startsWith('pg_') || name.startsWith('busbar_') || reservedDatabases.has(name)) return 'is a reserved name'
  return null
}

/** What a backup that an operation begun at this time makes is called, unless one of that name is there. `at`: epoch ms. */
export function backupIdOf(projectName: string, at: number): string {
  const [day = '', time = ''] = new Date(at).toISOString().split('T')
  return `${projectName}-backup-${day.replaceAll('-', '')}-${time.slice(0, 8).replaceAll(':', '')}`
}
