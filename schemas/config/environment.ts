/** The environment of this process. The only place that reads it: everything else gets its values passed in. */
export function environment(): Readonly<Record<string, string | undefined>> {
  return process.env
}
