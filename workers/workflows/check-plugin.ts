import { Compile } from 'typebox/compile'
import { isMapping } from '../../schemas/workflows/flow-fields.ts'
import { readFlow } from '../../schemas/workflows/flow-yaml.ts'
import { PluginManifest, pluginId } from '../../schemas/workflows/plugin-manifest.ts'
import { catalogue } from './catalogue.ts'
import type { Plugin } from './plugin.ts'

const manifests = Compile(PluginManifest)

/** What a plugin lacks, a text a fault; none for one that can be offered. Built-in plugins are held to the same. */
export function pluginProblems({ manifest }: Plugin): readonly string[] {
  if (!manifests.Check(manifest)) {
    return manifests.Errors(manifest).map(({ instancePath, message }) => `${instancePath.slice(1) || 'It'} ${message}`)
  }
  const { inputSchema, outputSchema } = manifest
  const problems = [
    ...(manifest.description.trim() === '' ? ['description is empty'] : []),
    ...schemaProblems('input', inputSchema),
    ...schemaProblems('output', outputSchema),
  ]
  if (!isMapping(inputSchema) || inputSchema.type !== 'object') problems.push('input is no object')
  else if (inputSchema.additionalProperties !== false) problems.push('input allows additional properties')
  return problems.length > 0 ? problems : exampleProblems(manifest)
}

function schemaProblems(place: string, schema: unknown): readonly string[] {
  try {
    Compile(schema as Parameters<typeof Compile>[0])
  } catch (error) {
    return [`${place} is no JSON Schema: ${(error as Error).message}`]
  }
  return undescribed(place, schema)
}

/** Properties that do not say what they are, nested ones too. */
function undescribed(place: string, schema: unknown): readonly string[] {
  if (!isMapping(schema)) return []
  const { properties, patternProperties, additionalProperties, items, anyOf } = schema
  const parts = [items, additionalProperties, ...(Array.isArray(anyOf) ? anyOf : [])]
  const rest = isMapping(patternProperties) ? Object.values(patternProperties) : []
  const own = Object.entries(isMapping(properties) ? properties : {}).flatMap(([name, property]) => {
    const { description, examples } = isMapping(property) ? property : {}
    const isDescribed = typeof description === 'string' && description.trim() !== ''
    const hasExample = Array.isArray(examples) && examples.length > 0
    return [
      ...(isDescribed ? [] : [`${place}.${name} has no description`]),
      ...(hasExample ? [] : [`${place}.${name} has no examples`]),
      ...undescribed(`${place}.${name}`, property),
    ]
  })
  return [...own, ...[...parts, ...rest].flatMap((each) => undescribed(place, each))]
}

/** The example is a flow that can be saved, and uses the plugin. */
function exampleProblems(manifest: PluginManifest): readonly string[] {
  const all = [...catalogue.map((each) => each.manifest), manifest]
  const find = (type: string) => all.findLast(({ id }) => id === type || id === pluginId(type))
  const { plan, problems } = readFlow(manifest.example, { all: () => all, find })
  if (plan === null) return problems.map(({ line, message }) => `example, line ${line}: ${message}`)
  return manifest.example.includes(`type: ${manifest.id}`) ? [] : ['example does not use the plugin']
}
