import { Fields, isMapping, suggestion } from './flow-fields.ts'
import type { RetryPlan, TaskPlan } from './flow-plan.ts'
import { propertyProblems } from './input-schema.ts'
import type { PluginManifest } from './plugin-manifest.ts'
import type { Path, YamlSource } from './yaml-source.ts'

/** What reading the tasks of a flow needs and gathers. */
export interface TaskReading {
  readonly source: YamlSource
  readonly find: (type: string) => PluginManifest | undefined
  /** Ids to suggest for one that is not known. */
  readonly types: readonly string[]
  /** Of all tasks so far. */
  readonly names: Set<string>
  /** Where each of them is written. */
  readonly places: Map<TaskPlan, Path>
}

export const taskName = '^[A-Za-z][A-Za-z0-9_-]*$'
export const maxTasks = 2_000
const maxBlockDepth = 20
const maxNameLength = 100
const day = 86_400_000

const taskKeys = [
  'name',
  'type',
  'description',
  'properties',
  'dependsOn',
  'runIf',
  'retry',
  'timeout',
  'allowFailure',
  'idempotencyKey',
  'workerGroup',
]

/** @param concurrent whether tasks without `dependsOn` wait for nothing */
export function readTasks(
  reading: TaskReading,
  path: Path,
  list: readonly unknown[],
  { concurrent = false, depth = 0 } = {},
): readonly TaskPlan[] {
  const { source, places } = reading
  if (depth > maxBlockDepth) {
    source.add(path, `Tasks nest deeper than ${maxBlockDepth}`)
    return []
  }
  const read: ReadTask[] = []
  for (const [index, value] of list.entries()) {
    if (reading.names.size >= maxTasks) {
      source.add(path, `The flow has more than ${maxTasks} tasks`)
      break
    }
    const task = readTask(reading, [...path, index], value, depth)
    if (task !== null) read.push(task)
  }
  const withNeeds = read.map(({ task, path: place }, index) => {
    const plan = { ...task, needs: needsOf(reading, read, index, concurrent) }
    places.set(plan, place)
    return plan
  })
  const distinct = new Set(read.map(({ task }) => task.name)).size === read.length
  if (distinct && read.some(({ dependsOn }) => dependsOn !== null)) tellCycle(source, withNeeds, places)
  return withNeeds
}

interface ReadTask {
  readonly task: TaskPlan
  readonly path: Path
  /** Null when it says nothing of them. */
  readonly dependsOn: readonly unknown[] | null
}

function readTask(reading: TaskReading, path: Path, value: unknown, depth: number): ReadTask | null {
  const { source } = reading
  const manifest = isMapping(value) && typeof value.type === 'string' ? reading.find(value.type) : undefined
  const blockKeys = blockKeysOf(manifest)
  // Of a plugin that is not known nobody can say what blocks it has.
  const unknownType = manifest === undefined
  const fields = Fields.of(source, path, value, unknownType ? null : [...taskKeys, ...blockKeys])
  if (fields === null) return null
  const name = readName(reading, fields)
  const type = fields.text('type', { max: 200, required: true })
  if (type !== null && manifest === undefined) {
    fields.wrong('type', `There is no plugin ${type}${suggestion(type, reading.types)}`)
  }
  const properties = fields.mapping('properties', 1_000)
  if (manifest !== undefined) {
    const place = fields.has('properties') ? fields.path('properties') : path
    for (const problem of propertyProblems(manifest.inputSchema, properties)) {
      const message =
        fields.has('properties') || problem.path.length > 0 ? problem.message : `properties ${problem.message}`
      source.add([...place, ...problem.path], message, problem.of)
    }
  }
  const dependsOn = fields.raw('dependsOn')
  fields.text('description', { max: 5_000 })
  const task: TaskPlan = {
    name: name ?? '',
    type: manifest?.id ?? type ?? '',
    properties,
    needs: [],
    runIf: fields.template('runIf'),
    retry: readRetry(source, fields),
    timeoutMs: fields.duration('timeout', null),
    allowFailure: fields.flag('allowFailure', false),
    idempotencyKey: fields.template('idempotencyKey'),
    workerGroup: readGroup(fields),
    blocks: readBlocks(reading, fields, { manifest, blockKeys, depth }),
  }
  const named = typeof dependsOn === 'string' ? [dependsOn] : fields.list('dependsOn', maxTasks)
  return { task, path, dependsOn: dependsOn === undefined ? null : named }
}

function readName({ names }: TaskReading, fields: Fields): string | null {
  const name = fields.text('name', { max: maxNameLength, required: true })
  if (name === null) return null
  if (!new RegExp(taskName).test(name)) {
    fields.wrong('name', 'must begin with a letter and hold letters, digits, _ and - only')
  } else if (names.has(name)) fields.wrong('name', `The flow has another task ${name}`)
  names.add(name)
  return name
}

function readGroup(fields: Fields): string | null {
  const group = fields.text('workerGroup', { max: 64 })
  if (group === null || /^[A-Za-z0-9_-]+$/.test(group)) return group
  fields.wrong('workerGroup', 'must hold letters, digits, _ and - only')
  return null
}

function readRetry(source: YamlSource, fields: Fields): RetryPlan | null {
  if (!fields.has('retry')) return null
  const keys = ['maxAttempts', 'delay', 'backoff', 'factor', 'maxDelay', 'jitter']
  const retry = Fields.of(source, fields.path('retry'), fields.raw('retry'), keys)
  if (retry === null) return null
  return {
    maxAttempts: retry.number('maxAttempts', { min: 1, max: 1_000, whole: true, otherwise: 3 }),
    delayMs: retry.duration('delay', 1_000),
    backoff: retry.choice('backoff', ['constant', 'exponential'], 'constant'),
    factor: retry.number('factor', { min: 1, max: 100, otherwise: 2 }),
    maxDelayMs: retry.duration('maxDelay', day),
    jitter: retry.number('jitter', { min: 0, max: 1, otherwise: 0 }),
  }
}

/** Every control task that has blocks can have what runs when they fail, and at the end. */
function blockKeysOf(manifest: PluginManifest | undefined): readonly string[] {
  const blocks = manifest?.blocks ?? []
  return blocks.length === 0 ? [] : [...new Set([...blocks, 'errors', 'finally'])]
}

interface BlockReading {
  readonly manifest: PluginManifest | undefined
  readonly blockKeys: readonly string[]
  readonly depth: number
}

function readBlocks(reading: TaskReading, fields: Fields, { manifest, blockKeys, depth }: BlockReading) {
  const blocks: Record<string, readonly TaskPlan[]> = {}
  const read = (key: string, path: Path, list: readonly unknown[]) => {
    const concurrent = manifest?.id === 'core.parallel' && key === 'tasks'
    blocks[key] = readTasks(reading, path, list, { concurrent, depth: depth + 1 })
  }
  for (const key of blockKeys) {
    if (!fields.has(key)) continue
    if (key !== 'cases') read(key, fields.path(key), fields.list(key, maxTasks))
    else {
      const cases = Fields.of(reading.source, fields.path(key), fields.raw(key), null)
      for (const value of Object.keys(fields.mapping(key, 1_000))) {
        if (cases !== null) read(`case:${value}`, cases.path(value), cases.list(value, maxTasks))
      }
    }
  }
  if (blockKeys.includes('tasks') && (blocks.tasks ?? []).length === 0 && !fields.has('tasks')) fields.missing('tasks')
  return blocks
}

/** Without a `dependsOn` in the whole block its tasks run as they are written, one after the other. */
function needsOf(
  { source }: TaskReading,
  block: readonly ReadTask[],
  index: number,
  concurrent: boolean,
): readonly string[] {
  const { dependsOn, path, task } = block[index]!
  if (block.every((each) => each.dependsOn === null)) {
    return concurrent || index === 0 ? [] : [block[index - 1]!.task.name]
  }
  const needs = new Set<string>()
  for (const [place, name] of (dependsOn ?? []).entries()) {
    const at = [...path, 'dependsOn', place]
    const others = block.filter((each) => each.task !== task).map((each) => each.task.name)
    if (name === task.name) source.add(at, 'is the task itself')
    else if (typeof name !== 'string' || !others.includes(name)) {
      const near = typeof name === 'string' ? suggestion(name, others) : ''
      source.add(at, `is no other task of this block${near}`)
    } else if (needs.has(name)) source.add(at, `names ${name} twice`)
    else needs.add(name)
  }
  return [...needs]
}

/** One cycle is told; when it is mended the next one is. */
function tellCycle(source: YamlSource, tasks: readonly TaskPlan[], places: ReadonlyMap<TaskPlan, Path>): void {
  const byName = new Map(tasks.map((task) => [task.name, task]))
  const waiting = new Map(tasks.map(({ name, needs }) => [name, new Set(needs)]))
  for (let free = true; free; ) {
    free = false
    for (const [name, needs] of waiting) {
      if ([...needs].some((each) => waiting.has(each))) continue
      waiting.delete(name)
      free = true
    }
  }
  const [start] = waiting.keys()
  if (start === undefined) return
  const way: string[] = []
  let name = start
  while (!way.includes(name)) {
    way.push(name)
    name = byName.get(name)!.needs.find((each) => waiting.has(each))!
  }
  way.splice(0, way.indexOf(name))
  const first = byName.get(way[0]!)!
  source.add([...places.get(first)!, 'dependsOn'], `waits for itself: ${[...way, name].join(' -> ')}`)
}
