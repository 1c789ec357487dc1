import PostalMime, { type Address } from 'postal-mime'

/** The parts of a mail. Source: RFC 5322 and RFC 2045 */
export async function parse({ source }: { readonly source: Uint8Array }) {
  const { messageId, from, to, cc, replyTo, subject, date, inReplyTo, text, html, attachments } =
    await PostalMime.parse(source, {
      maxNestingDepth: 50,
    })
  return {
    messageId: messageId ?? null,
    inReplyTo: inReplyTo ?? null,
    from: from === undefined ? null : written(from),
    to: (to ?? []).map(written),
    cc: (cc ?? []).map(written),
    replyTo: (replyTo ?? []).map(written),
    subject: subject ?? '',
    date: date ?? null,
    text: text ?? null,
    html: html ?? null,
    attachments: attachments.map(({ filename, mimeType, content }) => ({
      name: filename,
      contentType: mimeType,
      bytes: typeof content === 'string' ? Buffer.from(content) : new Uint8Array(content as ArrayBuffer),
    })),
  }
}

function written({ name, address = '', group }: Address): string {
  if (group !== undefined) return `${name}: ${group.map(written).join(', ')};`
  return name === '' ? address : `${name} <${address}>`
}
