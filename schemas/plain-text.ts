/** Whether a text can be stored and searched everywhere: without NUL, and every surrogate in its pair. */
export function isPlainText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed()
}

/** What is wrong with a text that is none, for whoever has sent it. */
export const notPlainText = 'must hold no NUL and no half of a surrogate pair'
