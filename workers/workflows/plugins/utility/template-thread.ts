import { renderData, TemplateMistake } from '../../../../schemas/workflows/template.ts'
import { TaskFailure } from '../../plugin.ts'

interface Asked {
  readonly text: string
  readonly data: Readonly<Record<string, unknown>>
  readonly strict: boolean
  readonly escaping: 'none' | 'html'
}

export async function rendered({ text, data, strict, escaping }: Asked): Promise<string> {
  try {
    return await renderData(text, data, { strict, escaping })
  } catch (error) {
    if (!(error instanceof TemplateMistake)) throw error
    throw new TaskFailure('refused', `The template cannot be rendered: ${error.message}`, error)
  }
}
