import { Context, Drop, Liquid, type Template, toPromise, Value } from 'liquidjs'
import { LRUCache } from 'lru-cache'

/** A template that cannot be read or rendered; the text says where and why, and holds no value. */
export class TemplateMistake extends Error {
  override readonly name = 'TemplateMistake'
}

/** What templates can name: `inputs`, `outputs`, `vars`, `execution`, `trigger`, `kv`, and in a loop `item` and `index`. */
export type TemplateScope = Readonly<Record<string, unknown>>

/** A credential a text asks for: `${NAME}`, or one field of it, `${NAME.field}`. */
export interface CredentialUse {
  readonly name: string
  readonly field: string | null
}

const maxTemplateLength = 100_000
const maxRenderMs = 1_000
const maxOutputBytes = 16 * 1024 * 1024
/** Liquid's own tags and outputs, or a credential, or one that is written with `$${` to stay as it is. */
const parts = /\{\{[\s\S]*?\}\}|\{%[\s\S]*?%\}|(\$?)\$\{([A-Z][A-Z0-9_]*)(?:\.([A-Za-z_][A-Za-z0-9_]*))?\}/g
const wholeOutput = /^\s*\{\{-?([\s\S]*?)-?\}\}\s*$/
/** Where credentials lie in the scope: no template can be written that reads it but through `${NAME}`. */
const credentialsName = 'busbarCredentials'

const limits = {
  cache: 1_000,
  ownPropertyOnly: true,
  strictFilters: true,
  strictVariables: false,
  jsTruthy: true,
  parseLimit: maxTemplateLength,
  renderLimit: maxRenderMs,
  memoryLimit: maxOutputBytes,
  // Nothing is read from the disk of the platform.
  templates: {},
}
/** They read other templates, of which there are none. */
const readingTags = ['include', 'render', 'layout', 'block']
const liquid = ours(new Liquid(limits))

function ours(engine: Liquid): Liquid {
  for (const tag of readingTags) delete engine.tags[tag]
  engine.registerFilter('to_json', (value: unknown) => JSON.stringify(value))
  engine.registerFilter('from_json', (text: unknown) => JSON.parse(String(text)))
  return engine
}

/** Something whose members are looked up when a template names them. */
export class Lookup extends Drop {
  readonly #find: (key: string) => unknown
  constructor(find: (key: string) => unknown) {
    super()
    this.#find = find
  }
  override liquidMethodMissing(key: string | number): unknown {
    return this.#find(String(key))
  }
}

/** What is wrong with a text as a template; null when nothing is. */
export function templateMistake(text: string): string | null {
  if (text.length > maxTemplateLength) return `is longer than ${maxTemplateLength} characters`
  try {
    parse(text)
    return null
  } catch (error) {
    return reason(error)
  }
}

/**
 * What a text names from outside, each as the steps to it: `outputs["a"].rows` is `['outputs', 'a', 'rows']`; a step that is looked up
 * is a list itself.
 *
 * @throws {TemplateMistake}
 */
export function templateReferences(text: string): readonly (readonly unknown[])[] {
  try {
    // What credentials are made into is ours, not the flow's.
    return liquid.globalVariableSegmentsSync(parse(text)).filter(([root]) => root !== credentialsName)
  } catch (error) {
    throw new TemplateMistake(reason(error), { cause: error })
  }
}

/** Every credential that a value asks for, at any depth. */
export function credentialsIn(value: unknown): readonly CredentialUse[] {
  const found = new Map<string, CredentialUse>()
  walkTexts(value, (text) => {
    for (const [all, escaped, name, field] of text.matchAll(parts)) {
      if (name !== undefined && escaped === '') found.set(all, { name, field: field ?? null })
    }
  })
  return [...found.values()]
}

/**
 * Renders every text in a value. A text that is one output and nothing else keeps its type: `{{ outputs["a"]["rows"] }}` gives the list.
 * What is rendered is never read as a template again, so data cannot ask for credentials.
 *
 * @param credentials by `NAME` or `NAME.field`
 * @throws {TemplateMistake}
 */
export async function renderValue(
  value: unknown,
  scope: TemplateScope,
  credentials: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  if (typeof value === 'string') return await renderText(value, { ...scope, [credentialsName]: credentials })
  if (Array.isArray(value)) return await Promise.all(value.map((each) => renderValue(each, scope, credentials)))
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value).map(async ([key, each]) => {
    return [key, await renderValue(each, scope, credentials)] as const
  })
  return Object.fromEntries(await Promise.all(entries))
}

/**
 * Renders a template with data of its own: it names no credential and nothing of the execution, and always gives a text.
 *
 * @param strict whether a name that is not there is a mistake
 * @param escaping what becomes of values, unless they say `| raw`
 * @throws {TemplateMistake}
 */
export async function renderData(
  text: string,
  data: Readonly<Record<string, unknown>>,
  { strict, escaping }: { readonly strict: boolean; readonly escaping: 'none' | 'html' },
): Promise<string> {
  const output = escaping === 'html' ? { outputEscape: 'escape' as const } : {}
  try {
    const engine = ours(new Liquid({ ...limits, ...output, strictVariables: strict }))
    return String(await engine.parseAndRender(text, data))
  } catch (error) {
    throw new TemplateMistake(reason(error), { cause: error })
  }
}

/** Whether a rendered condition holds: all but nothing, `false`, `0`, `null` and the empty text. */
export function holds(rendered: unknown): boolean {
  if (typeof rendered !== 'string') return Boolean(rendered)
  return !['', 'false', '0', 'null', 'undefined'].includes(rendered.trim())
}

async function renderText(text: string, scope: TemplateScope): Promise<unknown> {
  if (!text.includes('{{') && !text.includes('{%') && !text.includes('${')) return text
  try {
    const known = rendered.get(text) ?? compiled(text)
    rendered.set(text, known)
    if (known instanceof Value)
      return (await toPromise(known.value(new Context(scope, liquid.options, {}, { liquid })))) ?? null
    return await liquid.render(known, scope)
  } catch (error) {
    throw new TemplateMistake(reason(error), { cause: error })
  }
}

/** Templates that were rendered lately: a flow's are rendered for every execution. */
const rendered = new LRUCache<string, Value | Template[]>({
  maxSize: 4 * 1024 * 1024,
  sizeCalculation: (_compiled, text) => text.length + 1,
})

/** One output and nothing else is a value of its own type. */
function compiled(text: string): Value | Template[] {
  const source = withCredentials(text)
  const whole = wholeOutput.exec(source)
  if (whole !== null && !whole[1]!.includes('}}')) return new Value(whole[1]!.trim(), liquid)
  return parse(text)
}

function parse(text: string): Template[] {
  const source = withCredentials(text)
  const whole = wholeOutput.exec(source)
  if (whole !== null && !whole[1]!.includes('}}') && whole[1]!.trim() === '') throw new Error('the output is empty')
  return liquid.parse(source)
}

function withCredentials(text: string): string {
  return text.replace(
    parts,
    (all, escaped: string | undefined, name: string | undefined, field: string | undefined) => {
      if (name === undefined) {
        if (all.includes(credentialsName)) throw new Error(`${credentialsName} cannot be named`)
        return all
      }
      const full = field === undefined ? name : `${name}.${field}`
      return escaped === '$' ? `\${${full}}` : `{{ ${credentialsName}["${full}"] }}`
    },
  )
}

function walkTexts(value: unknown, visit: (text: string) => void): void {
  if (typeof value === 'string') visit(value)
  else if (value !== null && typeof value === 'object') {
    for (const each of Object.values(value)) walkTexts(each, visit)
  }
}

/** Liquid's messages end with the file and line of a template that has none. */
function reason(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0]!.replace(/, file:.*$/, '')
}
