import { createHash, createHmac } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Owner } from './servers.ts'

interface S3Account {
  readonly accessKeyId: string
  readonly secret: string
  readonly region: string
  readonly sessionToken?: string
}

interface S3Answer {
  readonly status: number
  readonly body?: string | Buffer
}

/**
 * A bucket that checks the signature of each request: Debian has no server for S3.
 * Source: Amazon S3 API reference, "Authenticating Requests (AWS Signature Version 4)"
 */
export async function testS3(
  t: Owner,
  account: S3Account,
): Promise<{ readonly url: string; readonly objects: Map<string, Buffer> }> {
  const objects = new Map<string, Buffer>()
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const problem = mistakeIn(request, body, account)
    const answer = problem === null ? answerTo(request, body, objects) : { status: 403, body: error(problem) }
    response.writeHead(answer.status, { 'Content-Type': 'application/xml' }).end(answer.body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/bucket`, objects }
}

const error = (code: string) => `<?xml version="1.0"?><Error><Code>${code}</Code></Error>`
const sha256 = (text: string | Buffer) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** As AWS escapes: all but the unreserved characters of RFC 3986. */
const escaped = (text: string) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`)

function mistakeIn(request: IncomingMessage, body: Buffer, account: S3Account): string | null {
  const {
    authorization = '',
    'x-amz-date': date,
    'x-amz-content-sha256': digest,
  } = request.headers as Record<string, string>
  const parts =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=(\w{64})$/.exec(
      authorization,
    )
  if (parts === null) return 'MissingSecurityHeader'
  const [, id, day, region, signedHeaders, signature] = parts as unknown as string[]
  if (id !== account.accessKeyId) return 'InvalidAccessKeyId'
  if (region !== account.region) return 'AuthorizationHeaderMalformed'
  if (digest !== sha256(body)) return 'XAmzContentSHA256Mismatch'
  if (request.headers['x-amz-security-token'] !== account.sessionToken) return 'InvalidToken'
  const names = signedHeaders!.split(';')
  const mustBe = ['host', ...Object.keys(request.headers).filter((name) => name.startsWith('x-amz-'))]
  if (mustBe.some((name) => !names.includes(name))) return 'AccessDenied'
  const url = new URL(request.url!, 'http://localhost')
  const query = [...url.searchParams]
    .map(([name, value]) => `${escaped(name)}=${escaped(value)}`)
    .sort()
    .join('&')
  const path = decodeURIComponent(url.pathname).split('/').map(escaped).join('/')
  const headers = names.map((name) => `${name}:${String(request.headers[name]).trim()}\n`).join('')
  const canonical = [request.method, path, query, headers, signedHeaders, digest].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  const text = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n')
  const key = [region!, 's3', 'aws4_request'].reduce(
    (made, each) => hmac(made, each),
    hmac(`AWS4${account.secret}`, day!),
  )
  return hmac(key, text).toString('hex') === signature ? null : 'SignatureDoesNotMatch'
}

function answerTo({ method, url, headers }: IncomingMessage, body: Buffer, objects: Map<string, Buffer>): S3Answer {
  const { pathname, searchParams } = new URL(url!, 'http://localhost')
  const key = decodeURIComponent(pathname.replace(/^\/bucket\/?/, ''))
  if (method === 'GET' && searchParams.get('list-type') === '2')
    return { status: 200, body: listing(searchParams, objects) }
  if (method === 'PUT' && headers['x-amz-copy-source'] !== undefined) {
    const source = objects.get(decodeURIComponent(String(headers['x-amz-copy-source']).replace(/^\/bucket\//, '')))
    if (source === undefined) return { status: 404, body: error('NoSuchKey') }
    objects.set(key, source)
    return { status: 200, body: '<CopyObjectResult><ETag>x</ETag></CopyObjectResult>' }
  }
  if (method === 'PUT') objects.set(key, body)
  if (method === 'PUT') return { status: 200 }
  if (method === 'DELETE') objects.delete(key)
  if (method === 'DELETE') return { status: 204 }
  const found = objects.get(key)
  return found === undefined ? { status: 404, body: error('NoSuchKey') } : { status: 200, body: found }
}

const pageSize = 2

function listing(query: URLSearchParams, objects: Map<string, Buffer>): string {
  const prefix = query.get('prefix')!
  const under = [...objects.keys()].filter((key) => key.startsWith(prefix)).sort()
  const entries = under.map((key) => {
    const [first, ...rest] = key.slice(prefix.length).split('/')
    return rest.length > 0
      ? `<CommonPrefixes><Prefix>${prefix}${first}/</Prefix></CommonPrefixes>`
      : contents(key, objects)
  })
  const all = [...new Set(entries)]
  const from = Number(query.get('continuation-token') ?? 0)
  const isTruncated = from + pageSize < all.length
  const next = isTruncated ? `<NextContinuationToken>${from + pageSize}</NextContinuationToken>` : ''
  return `<?xml version="1.0"?><ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${next}${all.slice(from, from + pageSize).join('')}</ListBucketResult>`
}

const contents = (key: string, objects: Map<string, Buffer>) =>
  `<Contents><Key>${key.replaceAll('&', '&amp;')}</Key><Size>${objects.get(key)!.length}</Size><LastModified>2027-01-01T00:00:00.000Z</LastModified></Contents>`
