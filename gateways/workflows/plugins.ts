import type { FastifyInstance } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { type PluginManifest, pluginAliases, pluginCategories } from '../../schemas/workflows/plugin-manifest.ts'
import { queryOf } from './request.ts'
import type { PluginView, WorkflowService } from './service.ts'

/** What flows can be made of. */
export function pluginRoutes(app: FastifyInstance, { plugins }: WorkflowService): void {
  const config = { role: 'viewer' } as const
  app.get('/api/v1/plugins', { config }, async (request, reply) => {
    const { q, category } = queryOf(request, ['q', 'category'])
    const found = plugins.all().filter((manifest) => {
      return (category === undefined || same(manifest.category, category)) && (q === undefined || speaksOf(manifest, q))
    })
    reply.header('X-Total-Count', String(found.length))
    return found
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
