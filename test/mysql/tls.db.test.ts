import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import t from 'tap'
import { openMysql } from '../../gateways/data/mysql-open.ts'
import { mysqlDatasource } from '../../ops/mysql-datasource.ts'
import { loadConfig } from '../../schemas/config/load.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { testMysql } from '../support/mysql.ts'

t.setTimeout(60_000)

// The server, which may run as somebody else, reads them.
const folder = mkdtempSync(join(tmpdir(), 'busbar-mysql-tls-'))
t.teardown(() => rmSync(folder, { recursive: true }))
chmodSync(folder, 0o755)
const [certFile, keyFile] = [join(folder, 'server.crt'), join(folder, 'server.key')]
const certify = (names: readonly string[]) => {
  const { certificate, key } = selfSignedCertificate(names)
  writeFileSync(certFile, certificate)
  writeFileSync(keyFile, key, { mode: 0o644 })
}
certify(['localhost'])
const server = await testMysql(t, { settings: { ssl_cert: certFile, ssl_key: keyFile } })

const connectionOf = (host: string, scheme: string, options: string) => {
  const url = `${scheme}://${host}:${server.port}/mysql?user=root&password=secret${options}`
  return mysqlDatasource(loadConfig({ argv: [`--mysql.datasource.url=${url}`] }).values, 'The test').connection
}
const cipherOf = async (host: string, scheme: string, options: string) => {
  const connection = await createConnection(connectionOf(host, scheme, options))
  const [rows] = await connection.query("show session status like 'Ssl_cipher'")
  connection.destroy()
  return (rows as { Value: string }[])[0]!.Value
}

const known = `&serverSslCert=${certFile}`
const cases: readonly (readonly [
  scheme: string,
  options: string,
  expected: 'plain' | 'secured' | RegExp,
  host?: string,
])[] = [
  ['jdbc:mysql', '', 'plain'],
  ['jdbc:mariadb', '&sslMode=disable', 'plain'],
  ['mysql', '&useSSL=true', 'secured'],
  ['jdbc:mysql', '&sslMode=REQUIRED', 'secured'],
  ['jdbc:mariadb', '&sslMode=trust', 'secured'],
  ['jdbc:mysql', '&sslMode=VERIFY_CA', /self.signed/],
  ['jdbc:mariadb', `&sslMode=verify-ca${known}`, 'secured'],
  ['jdbc:mariadb', `&sslMode=verify-full${known}`, 'secured', 'localhost'],
  ['jdbc:mysql', `&sslMode=VERIFY_IDENTITY${known}`, /use a name, or sslMode=verify-ca/, '127.0.0.1'],
]
t.test('the URL says whether and how the connection is encrypted', async (t) => {
  for (const [scheme, options, expected, host = '127.0.0.1'] of cases) {
    const title = `${scheme} ${options.replace(known, ' with its certificate')} ${host}`
    if (expected instanceof RegExp) await t.rejects(cipherOf(host, scheme, options), { message: expected }, title)
    else t.equal((await cipherOf(host, scheme, options)) === '', expected === 'plain', title)
  }
})

t.test('a certificate that is not trusted is told to the operator in one line', async (t) => {
  await t.rejects(openMysql({ connection: connectionOf('127.0.0.1', 'jdbc:mysql', '&sslMode=VERIFY_CA') }), {
    code: 'data/database-unavailable',
    message: /^The database cannot be reached: [^\n]*self.signed[^\n]*$/,
  })
  const database = await openMysql({
    connection: connectionOf('localhost', 'jdbc:mysql', `&sslMode=verify-full${known}`),
  })
  await database.ping()
  await database.close()
})

t.test('nor one for another host', async (t) => {
  certify(['db.example'])
  await server.restart()
  t.not(await cipherOf('localhost', 'jdbc:mysql', `&sslMode=VERIFY_CA${known}`), '')
  await t.rejects(cipherOf('localhost', 'jdbc:mysql', `&sslMode=VERIFY_IDENTITY${known}`), { message: /altnames/ })
})
