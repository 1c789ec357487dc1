/** Ways in which programs write a text that they were given; each is looked for wherever a secret may have come. */
export function secretForms(text: string): ReadonlySet<string> {
  const bytes = Buffer.from(text, 'utf8')
  const forms = [text, ...escapedForms(text), ...urlForms(text), ...base64Forms(bytes), ...hexForms(bytes)]
  return new Set(forms.filter((form) => form.length >= shortestForm))
}

/** What is left of an encoded text without its neighbours can be too short to mean anything. */
const shortestForm = 4

/** In JSON and other quoted texts, once and within another. */
function escapedForms(text: string): string[] {
  const once = JSON.stringify(text).slice(1, -1)
  const ascii = once.replace(/[\u007f-\uffff]/g, unicodeEscape)
  const html = once.replace(/[<>&]/g, unicodeEscape)
  const forms = [once, once.replaceAll('/', '\\/'), ascii, ascii.replaceAll('/', '\\/'), html]
  const twice = forms.map((form) => JSON.stringify(form).slice(1, -1))
  const markup = text.replace(/[&<>"']/g, (character) => markupEscapes[character]!)
  return [...forms, ...twice, markup, markup.replaceAll('&#39;', '&apos;'), markup.replaceAll('&#39;', '&#x27;')]
}

const markupEscapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function unicodeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** In paths, in queries and in forms; strict encoders escape more than others. */
function urlForms(text: string): string[] {
  const wellFormed = text.toWellFormed()
  const component = encodeURIComponent(wellFormed)
  const strict = component.replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
  const form = new URLSearchParams([['', wellFormed]]).toString().slice(1)
  const forms = [component, strict, form, strict.replaceAll('%20', '+'), encodeURI(wellFormed)]
  return [...forms, ...forms.map((each) => each.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()))]
}

/**
 * In the midst of longer bytes base64 begins at one of three places; what also depends on the neighbours at either end is left away.
 */
function base64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const inner = encoded.slice(
      offset === 0 ? 0 : offset + 1,
      encoded.length - ((offset + bytes.length) % 3 === 0 ? 0 : 1),
    )
    return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')]
  })
}

function hexForms(bytes: Buffer): string[] {
  const hex = bytes.toString('hex')
  return [hex, hex.toUpperCase()]
}
