import { type Static, Type } from 'typebox'
import { TaskFailure, type TaskRun } from '../../plugin.ts'

const maxBytes = 48 * 1024 ** 2
const maxRecipients = 500

const Addresses = (description: string, example: readonly string[]) =>
  Type.Optional(Type.Array(Type.String(), { description, maxItems: maxRecipients, examples: [example] }))

/** What a mail is made of. */
export const mailProperties = {
  from: Type.Optional(Type.String({ description: 'Sender', examples: ['Busbar <busbar@example.com>'] })),
  to: Addresses('Recipients', ['Ada <ada@example.com>']),
  cc: Addresses('Recipients of copies', ['grace@example.com']),
  bcc: Addresses('Recipients of copies that the others do not see', ['audit@example.com']),
  replyTo: Type.Optional(Type.String({ description: 'Where answers go', examples: ['team@example.com'] })),
  subject: Type.String({ description: 'Subject', default: '', examples: ['It is done'] }),
  text: Type.Optional(Type.String({ description: 'The text', examples: ['All rows are in.'] })),
  html: Type.Optional(Type.String({ description: 'The same as HTML', examples: ['<p>All rows are in.</p>'] })),
  attachments: Type.Array(
    Type.Object(
      {
        name: Type.String({ description: 'Name of the file', examples: ['report.pdf'] }),
        file: Type.Optional(
          Type.String({ description: 'URI of a file of another task', examples: ['{{ outputs.render.uri }}'] }),
        ),
        text: Type.Optional(Type.String({ description: 'Or what is in it, as a text', examples: ['a,b'] })),
        contentType: Type.Optional(
          Type.String({ description: 'Default: what the name says', examples: ['application/pdf'] }),
        ),
        cid: Type.Optional(
          Type.String({
            description: 'Name under which the HTML shows it: `<img src="cid:logo">`',
            examples: ['logo'],
          }),
        ),
      },
      { additionalProperties: false },
    ),
    { description: 'Files', default: [], maxItems: 100, examples: [[{ name: 'a.csv', text: 'a,b' }]] },
  ),
  headers: Type.Record(Type.String(), Type.String(), {
    description: 'More headers',
    default: {},
    examples: [{ 'In-Reply-To': '<1@example.com>' }],
  }),
}

const Mail = Type.Object(mailProperties)
export type MailInput = Static<typeof Mail> & { readonly from: string }

export interface ComposedMail {
  readonly message: Buffer
  readonly envelope: { readonly from: string; readonly to: string[] }
  /** With its brackets. */
  readonly messageId: string
}

/**
 * The mail as it is sent, and to whom; nothing is read from this machine or fetched for it.
 * @param id part of the Message-ID before the `@`
 * @throws {TaskFailure} `refused` for an address that is none, a line break in a header, or too much
 */
export async function composeMail(given: TaskRun<MailInput>, id: string): Promise<ComposedMail> {
  const { input } = given
  const [{ default: MailComposer }, { default: parseAddresses }] = await Promise.all([
    import('nodemailer/lib/mail-composer'),
    import('nodemailer/lib/addressparser'),
  ])
  checkHeaders(input)
  const addressOf = (text: string, place: string): string => {
    const found = parseAddresses(text, { flatten: true })
    const [{ address = '' } = {}] = found
    if (found.length === 1 && /^[^\s@<>]+@[^\s@<>]+$/.test(address)) return address
    throw new TaskFailure('refused', `properties.${place} is no mail address: ${text.slice(0, 100)}`)
  }
  const from = addressOf(input.from, 'from')
  const to = (['to', 'cc', 'bcc'] as const).flatMap((name) => (input[name] ?? []).map((each) => addressOf(each, name)))
  if (to.length === 0) throw new TaskFailure('refused', 'properties.to is needed, or cc or bcc')
  if (to.length > maxRecipients) throw new TaskFailure('refused', `More than ${maxRecipients} recipients`)
  const messageId = `<${id}@${from.split('@')[1]}>`
  const { replyTo, text, html } = input
  const composer = new MailComposer({
    from: input.from,
    to: input.to ?? [],
    cc: input.cc ?? [],
    ...(replyTo !== undefined && { replyTo }),
    ...(text !== undefined && { text }),
    ...(html !== undefined && { html }),
    subject: input.subject,
    messageId,
    headers: input.headers,
    attachments: await attachmentsOf(given),
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return { message: await composer.compile().build(), envelope: { from, to: [...new Set(to)] }, messageId }
}

/** A line break would begin another header, or the text. */
function checkHeaders({
  from,
  to = [],
  cc = [],
  bcc = [],
  replyTo = '',
  subject,
  headers,
  attachments,
}: MailInput): void {
  const files = attachments.flatMap(({ name, contentType = '', cid = '' }) => [name, contentType, cid])
  const texts = [from, ...to, ...cc, ...bcc, replyTo, subject, ...Object.values(headers), ...files]
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  if (texts.some((text) => /[\u0000-\u0008\n-\u001f\u007f]/.test(text)))
    throw new TaskFailure(
      'refused',
      'A header, address or name of a file has a line break or another control character',
    )
  for (const name of Object.keys(headers)) {
    const isReserved =
      /^(from|sender|to|cc|bcc|subject|date|message-id|mime-version|content-.*|return-path|received)$/i.test(name)
    if (isReserved || !/^[A-Za-z][A-Za-z0-9-]{0,76}$/.test(name))
      throw new TaskFailure('refused', `properties.headers: ${name.slice(0, 80)} cannot be set there`)
  }
}

async function attachmentsOf({ input, services }: TaskRun<MailInput>) {
  const attachments: { filename: string; content: Buffer; contentType?: string; cid?: string }[] = []
  let sizeBytes = Buffer.byteLength(`${input.text ?? ''}${input.html ?? ''}`)
  for (const { name, file, text, contentType, cid } of input.attachments) {
    if ((file === undefined) === (text === undefined))
      throw new TaskFailure('refused', `properties.attachments: ${name} needs either file or text`)
    const content = Buffer.from(file === undefined ? text! : await services.files.get(file))
    sizeBytes += content.length
    if (sizeBytes > maxBytes) throw new TaskFailure('refused', `The mail is larger than ${maxBytes} bytes`)
    attachments.push({
      filename: name,
      content,
      ...(contentType !== undefined && { contentType }),
      ...(cid !== undefined && { cid }),
    })
  }
  return attachments
}
