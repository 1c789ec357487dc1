import { TaskFailure } from '../../plugin.ts'
import { basic } from '../saas/api-plugin.ts'
import type { FileEntry, FileServer, TransferRun } from './transfer.ts'
import { boundedBody, fileRequest, urlPath, xmlBody } from './transfer-http.ts'

/** Opens a WebDAV server: every operation is a request. Source: RFC 4918 */
export function openWebdav(run: TransferRun): FileServer {
  const { place } = run
  const root = new URL(run.given.input.url)
  root.username = ''
  root.password = ''
  const at = (path: string) => `${root.origin}${root.pathname.replace(/\/$/, '')}/${urlPath(path.replace(/^\//, ''))}`
  const headers = place.user === '' ? {} : { Authorization: basic(place.user, place.password) }
  const ask = (method: string, url: string, more: Record<string, string> = {}, body?: Uint8Array | string) =>
    fileRequest(run, url, { method, headers: { ...headers, ...more }, ...(body !== undefined && { body }) })
  const list = async (path: string) => {
    const url = at(path === '' || path.endsWith('/') ? path : `${path}/`)
    const response = await ask('PROPFIND', url, { Depth: '1', 'Content-Type': 'application/xml' }, question)
    return entriesOf(await xmlBody(response, ['response', 'propstat']), new URL(url).pathname)
  }
  return {
    list,
    get: async (path, maxBytes) => await boundedBody(await ask('GET', at(path)), maxBytes),
    put: async (path, bytes) =>
      void (await ask('PUT', at(path), { 'Content-Type': 'application/octet-stream' }, bytes)),
    delete: async (path) => void (await ask('DELETE', at(path))),
    rename: async (from, to) => void (await ask('MOVE', at(from), { Destination: at(to), Overwrite: 'T' })),
    async makeFolder(path) {
      const parts = path.split('/').filter((part) => part !== '')
      for (let count = 1; count <= parts.length; count++) {
        const url = at(`${parts.slice(0, count).join('/')}/`)
        await ask('MKCOL', url).catch(async (error) => {
          // 405: it is there.
          if (!/answered 405/.test((error as Error).message)) throw error
        })
      }
    },
    async deleteFolder(path) {
      if ((await list(path)).length > 0) throw new TaskFailure('refused', 'The folder is not empty')
      await ask('DELETE', at(`${path.replace(/\/$/, '')}/`))
    },
    close: () => undefined,
  }
}

const question =
  '<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/></prop></propfind>'

interface DavResponse {
  readonly href?: string
  readonly propstat?: readonly { readonly status?: string; readonly prop?: DavProperties }[]
}
interface DavProperties {
  readonly resourcetype?: unknown
  readonly getcontentlength?: string
  readonly getlastmodified?: string
}

function entriesOf(answer: Record<string, unknown>, folder: string): FileEntry[] {
  const { response = [] } = (answer.multistatus ?? {}) as { response?: readonly DavResponse[] }
  return response.flatMap(({ href = '', propstat = [] }) => {
    const path = decodeURIComponent(new URL(href, 'http://localhost').pathname).replace(/\/$/, '')
    if (path === decodeURIComponent(folder).replace(/\/$/, '')) return []
    const found: DavProperties = propstat.find(({ status = '' }) => / 200 /.test(status))?.prop ?? {}
    const isFolder =
      typeof found.resourcetype === 'object' && found.resourcetype !== null && 'collection' in found.resourcetype
    const at = Date.parse(found.getlastmodified ?? '')
    return {
      name: path.split('/').at(-1)!,
      kind: isFolder ? ('folder' as const) : ('file' as const),
      sizeBytes: isFolder || found.getcontentlength === undefined ? null : Number(found.getcontentlength),
      modifiedAt: Number.isNaN(at) ? null : new Date(at).toISOString(),
    }
  })
}
