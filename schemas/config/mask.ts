const mask = '***'

/**
 * Hides what must not be read over a shoulder: the password of a URL, and parameters that carry one. Also safe on text that
 * is not a well-formed URL, such as one in an error's message.
 */
export function maskUrl(text: string): string {
  return text
    .replace(/(:\/\/[^:@/?#\s]*):[^/?#\s]*@/g, `$1:${mask}@`)
    .replace(/([?&](?:[a-z]*password|token|secret|creds)=)[^&\s]*/gi, `$1${mask}`)
}

/** A secret's place holder: says that there is one, not how long it is. */
export function maskSecret(): string {
  return mask
}
