import { hash } from 'node:crypto'

/** Of one row: the digest the database computes in `md5(row_to_json(t)::text)`, so that If-Match can be decided inside a statement. */
export function rowTag(rowJson: Buffer): string {
  return `"${hash('md5', rowJson, 'hex')}"`
}

/** Of any other answer. */
export function bodyTag(body: Buffer): string {
  return `"${hash('sha1', body, 'base64url')}"`
}

/** Whether an If-None-Match header names the tag (weak comparison, RFC 9110 13.1.2). */
export function matchesNone(header: string | undefined, tag: string): boolean {
  if (header === undefined) return false
  return header === '*' || tagsOf(header).includes(tag)
}

/** The row digests an If-Match header accepts; null when there is no condition on the content (absent, or `*`). */
export function matchDigests(header: string | undefined): readonly string[] | null {
  if (header === undefined || header.trim() === '*') return null
  return tagsOf(header).map((tag) => tag.slice(1, -1))
}

function tagsOf(header: string): readonly string[] {
  return header.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
}
