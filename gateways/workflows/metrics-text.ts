interface Sample {
  /** Behind the metric's name: `_bucket` and the like. Default none. */
  readonly suffix?: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Metric {
  readonly name: string
  readonly help: string
  readonly type: 'gauge' | 'counter' | 'histogram'
  readonly samples: readonly Sample[]
}

/** One sample a value of the label. */
export function samplesBy(label: string, counts: Readonly<Record<string, number>>): readonly Sample[] {
  return Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }))
}

/** The samples of one histogram. @param counts by bound: how many were as large or less */
export function histogramSamples(
  labels: Readonly<Record<string, string>>,
  bounds: readonly number[],
  {
    counts,
    count,
    sumSeconds,
  }: { readonly counts: readonly number[]; readonly count: number; readonly sumSeconds: number },
): readonly Sample[] {
  const buckets = bounds.map((bound, index) => ({ le: String(bound), value: counts[index] ?? 0 }))
  return [
    ...[...buckets, { le: '+Inf', value: count }].map(({ le, value }) => {
      return { suffix: '_bucket', labels: { ...labels, le }, value }
    }),
    { suffix: '_sum', labels, value: sumSeconds },
    { suffix: '_count', labels, value: count },
  ]
}

/** Source: Prometheus text format 0.0.4. */
export function metricText({ name, help, type, samples }: Metric): string {
  const lines = samples.map(({ suffix = '', labels, value }) => {
    const pairs = Object.entries(labels).map(([key, text]) => `${key}="${text.replace(/[\\"\n]/g, escaped)}"`)
    return `${name}${suffix}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`
  })
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}

function escaped(character: string): string {
  return character === '\n' ? '\\n' : `\\${character}`
}
