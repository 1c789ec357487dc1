/** `<stem>-YYYYMMDD-HHMMSS`, with `-2` and so on when that second has one. */
export function stampedId(stem: string, at: Date, taken: (id: string) => boolean): string {
  const digits = at.toISOString().replace(/[-:]|\.\d+Z$/g, '').replace('T', '-') // biome-ignore format: one expression
  const id = `${stem}-${digits}`
  for (let suffix = 1; ; suffix++) {
    const candidate = suffix === 1 ? id : `${id}-${suffix}`
    if (!taken(candidate)) return candidate
  }
}
