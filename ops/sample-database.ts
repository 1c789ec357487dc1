import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'

const sampleName = 'sample'
export const platformName = 'busbar_platform'

/** Makes sure of a database. Returns its URL. */
export async function ensureDatabase(serverUrl: string, name: string): Promise<string> {
  await withClient(serverUrl, async (client) => {
    if (!(await databaseExists(client, name))) await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)}`)
  })
  return databaseUrl(serverUrl, name)
}

/**
 * Makes sure of the sample database and returns its URL. It gets its name when it is complete: a start that was cut off
 * leaves no half of it, and one that exists is left as its owner changed it.
 */
export async function ensureSample(serverUrl: string): Promise<{ readonly url: string; readonly loaded: boolean }> {
  const unfinished = `${sampleName}_loading`
  const url = databaseUrl(serverUrl, sampleName)
  return withClient(serverUrl, async (client) => {
    if (await databaseExists(client, sampleName)) return { url, loaded: false }
    await client.query(`DROP DATABASE IF EXISTS ${unfinished}`)
    await client.query(`CREATE DATABASE ${unfinished}`)
    await withClient(databaseUrl(serverUrl, unfinished), async (sample) => {
      for (const file of ['schema.sql', 'data.sql']) {
        await sample.query(readFileSync(join(import.meta.dirname, 'sample', file), 'utf8'))
      }
      await sample.query('REFRESH MATERIALIZED VIEW income_by_month')
      await sample.query('ANALYZE')
    })
    await client.query(`ALTER DATABASE ${unfinished} RENAME TO ${sampleName}`)
    return { url, loaded: true }
  })
}

async function withClient<Result>(url: string, work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = new Client(url)
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

async function databaseExists(client: Client, name: string): Promise<boolean> {
  const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [name])
  return rowCount === 1
}

function databaseUrl(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}
