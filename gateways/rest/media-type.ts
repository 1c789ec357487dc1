import { Rejected } from '../../schemas/failure.ts'

/** `singular` is one bare row instead of the envelope (`application/vnd.pgrst.object+json`). */
export type Representation = 'json' | 'singular' | 'csv'

const representations: Readonly<Record<string, Representation>> = {
  'application/json': 'json',
  'application/*': 'json',
  'text/json': 'json',
  '*/*': 'json',
  'application/vnd.pgrst.object+json': 'singular',
  'application/vnd.busbar.object+json': 'singular',
  'text/csv': 'csv',
  'text/*': 'csv',
}

/**
 * The representation an `Accept` header prefers among ours.
 * @throws {Rejected} `http/not-acceptable` when it accepts none of them.
 */
export function acceptedRepresentation(accept: string | undefined): Representation {
  if (accept === undefined || accept === '*/*' || accept === 'application/json' || accept === '') return 'json'
  let best: { readonly representation: Representation; readonly quality: number } | null = null
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((text) => text.trim().toLowerCase())
    const quality = Number(parameters.find((p) => p.startsWith('q='))?.slice(2) ?? 1)
    const representation = Object.hasOwn(representations, type) ? representations[type] : undefined
    if (representation && quality > 0 && quality > (best?.quality ?? 0)) best = { representation, quality }
  }
  if (best) return best.representation
  throw new Rejected('http/not-acceptable', `Cannot answer with ${accept.slice(0, 200)}`, {
    details: { header: 'Accept' },
    hint: 'Use application/json, text/csv or application/vnd.busbar.object+json.',
  })
}
