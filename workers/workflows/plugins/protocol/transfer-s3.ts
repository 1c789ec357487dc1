import { createHash } from 'node:crypto'
import { TaskFailure } from '../../plugin.ts'
import type { FileEntry, FileServer, TransferRun } from './transfer.ts'
import { boundedBody, fileRequest, urlPath, xmlBody } from './transfer-http.ts'

const maxKeys = 100_000

/** Opens a bucket: every operation is a request. Source: Amazon S3 API reference, Signature Version 4 */
export function openS3(run: TransferRun): FileServer {
  const root = new URL(run.given.input.url)
  root.username = ''
  root.password = ''
  const bucket = `${root.origin}${root.pathname.replace(/\/$/, '')}`
  const at = (path: string) => `${bucket}/${urlPath(path.replace(/^\//, ''))}`
  const ask = async (method: string, url: string, headers: Record<string, string> = {}, body?: Buffer) => {
    const signed = await sign(run, { method, url, headers, ...(body !== undefined && { body }) })
    return await fileRequest(run, url, { method, headers: signed, ...(body !== undefined && { body }) })
  }
  return {
    list: (path) => list((url) => ask('GET', url), bucket, path),
    get: async (path, maxBytes) => await boundedBody(await ask('GET', at(path)), maxBytes),
    put: async (path, bytes) =>
      void (await ask('PUT', at(path), { 'content-type': 'application/octet-stream' }, bytes)),
    delete: async (path) => void (await ask('DELETE', at(path))),
    async rename(from, to) {
      const copied = await ask('PUT', at(to), { 'x-amz-copy-source': new URL(at(from)).pathname })
      // It begins with 200 and may still go wrong.
      const answer = await xmlBody(copied, [])
      if (answer.CopyObjectResult === undefined)
        throw new TaskFailure('unavailable', 'The server could not copy the file')
      await ask('DELETE', at(from))
    },
    makeFolder: async (path) => void (await ask('PUT', at(`${path.replace(/\/$/, '')}/`), {}, Buffer.alloc(0))),
    deleteFolder: async (path) => void (await ask('DELETE', at(`${path.replace(/\/$/, '')}/`))),
    close: () => undefined,
  }
}

interface S3Request {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Buffer
}

async function sign(
  { given, place }: TransferRun,
  { method, url, headers, body }: S3Request,
): Promise<Record<string, string>> {
  const { AwsV4Signer } = await import('aws4fetch')
  if (place.user === '') return { ...headers }
  const { region, sessionToken } = given.input
  const signer = new AwsV4Signer({
    method,
    url,
    headers: {
      ...headers,
      'x-amz-content-sha256': createHash('sha256')
        .update(body ?? '')
        .digest('hex'),
    },
    accessKeyId: place.user,
    secretAccessKey: place.password,
    ...(sessionToken !== undefined && { sessionToken }),
    service: 's3',
    region,
  })
  const signed = await signer.sign()
  return Object.fromEntries([...signed.headers].filter(([name]) => name !== 'host'))
}

interface Listing {
  readonly Contents?: readonly { readonly Key: string; readonly Size?: string; readonly LastModified?: string }[]
  readonly CommonPrefixes?: readonly { readonly Prefix: string }[]
  readonly IsTruncated?: string
  readonly NextContinuationToken?: string
}

async function list(ask: (url: string) => Promise<Response>, bucket: string, path: string): Promise<FileEntry[]> {
  const trimmed = path.replace(/^\//, '').replace(/\/$/, '')
  const prefix = trimmed === '' ? '' : `${trimmed}/`
  const entries: FileEntry[] = []
  for (let token: string | undefined = ''; token !== undefined; ) {
    const query = new URLSearchParams({ delimiter: '/', 'list-type': '2', prefix })
    if (token !== '') query.set('continuation-token', token)
    // The signature wants spaces as %20.
    const response = await ask(`${bucket}?${query.toString().replaceAll('+', '%20')}`)
    const answer = await xmlBody(response, ['Contents', 'CommonPrefixes'])
    const {
      Contents = [],
      CommonPrefixes = [],
      IsTruncated,
      NextContinuationToken,
    } = (answer.ListBucketResult ?? {}) as Listing
    for (const { Prefix } of CommonPrefixes) {
      entries.push({ name: Prefix.slice(prefix.length, -1), kind: 'folder', sizeBytes: null, modifiedAt: null })
    }
    for (const { Key, Size, LastModified } of Contents) {
      if (Key === prefix) continue
      entries.push({
        name: Key.slice(prefix.length),
        kind: 'file',
        sizeBytes: Number(Size),
        modifiedAt: LastModified ?? null,
      })
    }
    if (entries.length > maxKeys) throw new TaskFailure('refused', `There are more than ${maxKeys} files`)
    token = IsTruncated === 'true' ? NextContinuationToken : undefined
  }
  return entries
}
