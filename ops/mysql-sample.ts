import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'

const sampleName = 'sample'

/**
 * Makes sure of the sample database of a MySQL server and returns its URL. Its last table is a mark that it is complete: a start that
 * was cut off begins it anew, and one that exists is left as its owner changed it.
 */
export async function ensureMysqlSample(serverUrl: string): Promise<string> {
  const connection = await createConnection({ uri: serverUrl, multipleStatements: true })
  try {
    const [rows] = await connection.query(
      "select 1 from information_schema.tables where table_schema = ? and table_name = 'payment'",
      [sampleName],
    )
    if ((rows as readonly unknown[]).length === 0)
      await connection.query(readFileSync(join(import.meta.dirname, 'sample/mysql.sql'), 'utf8'))
  } finally {
    connection.destroy()
  }
  const url = new URL(serverUrl)
  url.pathname = `/${sampleName}`
  return url.href
}
