import jsonata from 'jsonata'

interface Each {
  readonly expression: string
  readonly items: readonly unknown[]
  readonly bindings: Readonly<Record<string, unknown>>
}

export async function each({ expression, items, bindings }: Each): Promise<readonly unknown[]> {
  const compiled = compile(expression)
  const values: unknown[] = []
  for (const [$index, item] of items.entries()) {
    values.push(plain(await compiled.evaluate(item, { ...bindings, index: $index, items })))
  }
  return values
}

export async function once({
  expression,
  value,
  bindings,
}: Omit<Each, 'items'> & { readonly value: unknown }): Promise<unknown> {
  return plain(await compile(expression).evaluate(value, bindings))
}

export async function fold({
  expression,
  items,
  initial,
}: Omit<Each, 'bindings'> & { readonly initial: unknown }): Promise<unknown> {
  const compiled = compile(expression)
  let accumulator = initial
  for (const [index, item] of items.entries()) {
    accumulator = plain(await compiled.evaluate(item, { accumulator, index, items }))
  }
  return accumulator
}

function compile(expression: string) {
  const compiled = jsonata(expression)
  return {
    async evaluate(value: unknown, bindings: Readonly<Record<string, unknown>>): Promise<unknown> {
      return await compiled.evaluate(value, { ...bindings })
    },
  }
}

/** Without functions, and without the marks that JSONata leaves on lists. */
function plain(value: unknown): unknown {
  const text = JSON.stringify(value)
  return text === undefined ? null : JSON.parse(text)
}
