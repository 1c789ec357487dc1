import { maskUrl } from '../schemas/config/mask.ts'
import type { Config } from '../schemas/config.ts'
import { postgresHome } from './local/postgres-home.ts'
import type { Role } from './roles.ts'

export interface UpState {
  readonly config: Config
  readonly running: readonly { readonly role: Role; readonly url: string | undefined }[]
  readonly notes: readonly string[]
  readonly bus: boolean
  /** Whether the sample database is served. */
  readonly sample: boolean
  /** Our own PostgreSQL, when there is one. */
  readonly postgres: string | undefined
  readonly folder: string
  readonly seconds: string
}

/** What runs, where it is, and what to do with it. */
export function upTable(state: UpState): string {
  const { config, running, notes, folder, seconds } = state
  const rows: (readonly [string, string])[] = running.flatMap(({ role, url }) => roleRows(role, url))
  if (config['app.functions.fetch-allow']?.includes('loopback')) {
    rows.push(['  functions may fetch', 'public addresses and this machine (app.functions.fetch-allow=loopback)'])
  }
  if (state.bus) rows.push(['NATS JetStream', maskUrl(config['app.nats.url'])])
  const served = config['spring.datasource.url']
  if (served !== undefined) rows.push([state.sample ? 'Database (sample)' : 'Database', maskUrl(served)])
  const mysql = config['mysql.datasource.url']
  if (mysql !== undefined) rows.push(['MySQL', maskUrl(mysql)])
  if (state.postgres !== undefined) rows.push(['  its password', `${postgresHome(folder)}/password (user postgres)`])
  rows.push(['Data folder', `${folder} (logs in logs/)`], ['Stop', 'Ctrl-C'])
  if (state.sample) {
    const keys = '--spring.datasource.url=jdbc:postgresql://localhost:5432/mydb --spring.datasource.username=me'
    rows.push(['Your own database', `npm start -- ${keys} --spring.datasource.password=...`])
  }
  const width = Math.max(...rows.map(([title]) => title.length))
  const table = rows.map(([title, text]) => `  ${title.padEnd(width)}  ${text}`)
  return ['', `Busbar runs (started in ${seconds} s)`, '', ...table, ...notes.map((note) => `\n  ${note}`), ''].join(
    '\n',
  )
}

function roleRows({ title, paths = [] }: Role, url: string | undefined): (readonly [string, string])[] {
  if (url === undefined) return [[title, 'running']]
  return [[title, url], ...paths.map((each) => [`  ${each.title}`, `${url}${each.path}`] as const)]
}
