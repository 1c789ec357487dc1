import { extractText, getDocumentProxy } from 'unpdf'
import { TaskFailure } from '../../plugin.ts'

const maxTextLength = 16 * 1024 ** 2

export async function text({ bytes, maxPages }: { readonly bytes: Uint8Array; readonly maxPages: number }) {
  try {
    const document = await getDocumentProxy(bytes, { verbosity: 0, disableFontFace: true })
    if (document.numPages > maxPages) throw new TaskFailure('refused', `There are more than ${maxPages} pages`)
    const { text: pages } = await extractText(document)
    const text = pages.join('\n\n')
    if (text.length > maxTextLength) throw new TaskFailure('refused', 'The text is larger than 16 MB')
    return { text, pages, count: pages.length }
  } catch (error) {
    if (error instanceof TaskFailure) throw error
    const { name, message } = error as Error
    const told = name === 'PasswordException' ? 'it asks for a password' : message
    throw new TaskFailure('refused', `This is no PDF that can be read: ${told}`, error)
  }
}
