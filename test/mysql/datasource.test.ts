import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { isMysqlWanted, mysqlDatasource } from '../../ops/mysql-datasource.ts'
import { loadConfig } from '../../schemas/config/load.ts'

type Values = Readonly<Record<string, string>>

const certificate = join(t.testdir(), 'ca.pem')
writeFileSync(certificate, 'the certificate')

const configOf = (values: Values) =>
  loadConfig({ argv: Object.entries(values).map(([key, value]) => `--${key}=${value}`) }).values
const of = (values: Values) => mysqlDatasource(configOf(values), 'The test')
const ofUrl = (url: string, others: Values = {}) => of({ 'mysql.datasource.url': url, ...others })

const plain = { host: 'db.example', port: 3306 }

const read: readonly (readonly [title: string, url: string, others: Values, expected: object])[] = [
  [
    'as the Java driver writes it',
    'jdbc:mysql://db.example:3307/shop',
    {},
    { connection: { host: 'db.example', port: 3307 }, schemas: ['shop'] },
  ],
  ['of MariaDB', 'jdbc:mariadb://db.example/shop', {}, { connection: plain, schemas: ['shop'] }],
  [
    'without jdbc',
    'mysql://ada:p%40ss@db.example/shop',
    {},
    { connection: { ...plain, user: 'ada', password: 'p@ss' }, schemas: ['shop'] },
  ],
  [
    'mariadb without jdbc',
    'mariadb://ada@[::1]:3310/shop',
    {},
    { connection: { host: '::1', port: 3310, user: 'ada' }, schemas: ['shop'] },
  ],
  [
    'credentials among the options',
    'jdbc:mysql://db.example/shop?user=ada&password=a%26b',
    {},
    { connection: { ...plain, user: 'ada', password: 'a&b' }, schemas: ['shop'] },
  ],
  [
    'credentials of their own go before',
    'jdbc:mysql://eve:x@db.example/shop?user=ada',
    { 'mysql.datasource.username': 'bob', 'mysql.datasource.password': 'y' },
    { connection: { ...plain, user: 'bob', password: 'y' }, schemas: ['shop'] },
  ],
  [
    'what concerns Java is passed over',
    'jdbc:mysql://db.example/shop?rewriteBatchedStatements=true&serverTimezone=UTC&useUnicode=true&allowPublicKeyRetrieval=true',
    {},
    { connection: plain, schemas: ['shop'] },
  ],
  [
    'the first of several hosts',
    'jdbc:mysql://db.example:3306,other:3306/shop',
    {},
    { connection: plain, schemas: ['shop'] },
  ],
  ['no encryption', 'jdbc:mysql://db.example/shop?sslMode=DISABLED', {}, { connection: plain, schemas: ['shop'] }],
  [
    'encryption with any certificate',
    'jdbc:mysql://db.example/shop?useSSL=true',
    {},
    { connection: { ...plain, ssl: { rejectUnauthorized: false, verifyIdentity: false } }, schemas: ['shop'] },
  ],
  [
    'the same in a mode',
    'jdbc:mysql://db.example/shop?sslMode=REQUIRED',
    {},
    { connection: { ...plain, ssl: { rejectUnauthorized: false, verifyIdentity: false } }, schemas: ['shop'] },
  ],
  [
    'and as MariaDB calls it',
    'jdbc:mariadb://db.example/shop?sslMode=trust',
    {},
    { connection: { ...plain, ssl: { rejectUnauthorized: false, verifyIdentity: false } }, schemas: ['shop'] },
  ],
  [
    'a certificate of a known authority',
    'jdbc:mysql://db.example/shop?sslMode=VERIFY_CA',
    {},
    { connection: { ...plain, ssl: { rejectUnauthorized: true, verifyIdentity: false } }, schemas: ['shop'] },
  ],
  [
    'of one that is given, and for this host',
    `jdbc:mariadb://db.example/shop?sslMode=verify-full&serverSslCert=${certificate}`,
    {},
    {
      connection: { ...plain, ssl: { rejectUnauthorized: true, verifyIdentity: true, ca: 'the certificate' } },
      schemas: ['shop'],
    },
  ],
  [
    'several databases',
    'jdbc:mysql://db.example',
    { 'mysql.schemas': 'shop,stock' },
    { connection: plain, schemas: ['shop', 'stock'] },
  ],
  ['all of them', 'jdbc:mysql://db.example/shop', { 'mysql.schemas': 'ALL' }, { connection: plain, schemas: 'ALL' }],
]
t.test('URLs of MySQL with their options', async (t) => {
  for (const [title, url, others, expected] of read) t.same(ofUrl(url, others), expected, title)
})

const refused: readonly (readonly [title: string, url: string, message: RegExp])[] = [
  ['another database', 'jdbc:postgresql://h/shop', /must look like .*jdbc:mysql:/],
  ['no URL', 'shop', /must look like/],
  ['a mode that is none', 'jdbc:mysql://ada:secret@h/shop?sslMode=maybe', /unknown sslMode "maybe"/],
  ['a port that is none', 'jdbc:mysql://h:99999/shop', /port/],
  ['no database', 'jdbc:mysql://h', /names no database/],
  ['a broken escape', 'jdbc:mysql://h/%zz', /percent escape/],
]
t.test('what cannot be read is refused in one line, without its password', async (t) => {
  for (const [title, url, message] of refused) {
    t.throws(() => ofUrl(url), { message }, title)
    t.doesNotThrow(() => {
      try {
        ofUrl(url)
      } catch (error) {
        if (/secret|\n/.test((error as Error).message)) throw error
      }
    }, title)
  }
})

t.test('with app.database-type=mysql it stands where PostgreSQL’s does', async (t) => {
  const values = {
    'app.database-type': 'mysql',
    'spring.datasource.url': 'jdbc:mysql://db.example/shop',
    'spring.datasource.username': 'ada',
    'spring.datasource.password': 'x',
  }
  t.ok(isMysqlWanted(configOf(values)))
  t.same(of(values), { connection: { ...plain, user: 'ada', password: 'x' }, schemas: ['shop'] })
  const postgres = { 'spring.datasource.url': 'jdbc:postgresql://db.example/shop' }
  t.notOk(isMysqlWanted(configOf(postgres)))
  t.throws(() => of(postgres), { message: /needs a MySQL/ })
})
