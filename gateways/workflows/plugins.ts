import type { FastifyInstance } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { type PluginManifest, pluginAliases, pluginCategories } from '../../schemas/workflows/plugin-manifest.ts'
import { cursorOf, placeOfCursor, queryOf, replyList, wholeNumber } from './request.ts'
import type { PluginView, WorkflowService } from './service.ts'

const maxLimit = 1_000

/** What flows can be made of. */
export function pluginRoutes(app: FastifyInstance, { plugins }: WorkflowService): void {
  const config = { role: 'viewer' } as const
  app.get('/api/v1/plugins', { config }, async (request, reply) => {
    const { q, category, limit, cursor } = queryOf(request, ['q', 'category', 'limit', 'cursor'])
    const found = plugins.all().filter((manifest) => {
      return (category === undefined || same(manifest.category, category)) && (q === undefined || speaksOf(manifest, q))
    })
    // All of them without a limit: there are some eighty.
    const count = limit === undefined ? found.length : wholeNumber('limit', limit, { min: 1, max: maxLimit })
    const start = cursor === undefined ? 0 : found.findIndex(({ id }) => id > placeOfCursor(cursor))
    const rows = start < 0 ? [] : found.slice(start, start + count)
    const more = start >= 0 && start + count < found.length
    return replyList(request, reply, { rows, total: found.length, next: more ? cursorOf(rows.at(-1)!.id) : null })
  })
  app.get('/api/v1/plugins/categories', { config }, async () => categoriesOf(plugins))
  app.get<{ Params: { id: string } }>('/api/v1/plugins/:id', { config }, async ({ params: { id } }) => {
    const found = plugins.find(id)
    if (found !== undefined) return found
    throw new Rejected('workflows/plugin-not-found', `No worker offers a plugin ${id.slice(0, 200)}`)
  })
}

/** In the order of the catalogue; with how many plugins each has now. */
function categoriesOf(plugins: PluginView): readonly { readonly name: string; readonly count: number }[] {
  const counts = new Map<string, number>(Object.keys(pluginCategories).map((name) => [name, 0]))
  for (const { category } of plugins.all()) counts.set(category, (counts.get(category) ?? 0) + 1)
  return [...counts].map(([name, count]) => ({ name, count }))
}

/** Every word, anywhere in what it says of itself, or in another name that it goes by. */
function speaksOf({ id, name, category, description }: PluginManifest, text: string): boolean {
  const others = Object.entries(pluginAliases).flatMap(([spelling, one]) => (one === id ? [spelling] : []))
  const told = [id, name, category, description, ...others].join(' ').toLowerCase()
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => told.includes(word))
}

function same(category: string, written: string): boolean {
  return category.toLowerCase() === written.toLowerCase()
}
