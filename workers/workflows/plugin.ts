import type { Socket } from 'node:net'
import type { Static, TObject, TSchema } from 'typebox'
import { writtenSchema } from '../../schemas/workflows/input-schema.ts'
import type { PluginManifest } from '../../schemas/workflows/plugin-manifest.ts'
import { toldSchema, withScalars } from '../../schemas/workflows/plugin-schema.ts'
import type { Opening, Value } from '../../schemas/workflows/task-result.ts'

/** Declares a plugin: one file, one call, in `plugins/<category>/`. */
export function definePlugin<Input extends TObject, Output extends TSchema>(
  declared: PluginDeclaration<Input, Output>,
): Plugin {
  const { run, input, output, example, needs = null, effect = 'idempotent', ...told } = declared
  return {
    manifest: { ...told, effect, needs, example, control: false, ...schemasOf(input, output) },
    input,
    output,
    run: run as Plugin['run'],
  }
}

/** Declares a control task: it decides what the engine runs under it. */
export function defineControl<Input extends TObject>(declared: ControlDeclaration<Input>): Plugin {
  const { decide, input, output, example, blocks, ...told } = declared
  return {
    manifest: {
      ...told,
      effect: 'pure',
      needs: null,
      example,
      control: true,
      blocks,
      ...schemasOf(input, output),
    },
    input,
    output,
    run: async (given) => new Opened(await decide(given as ControlRun<Static<Input>>)),
  }
}

/** What has a default need not be given, and each has one. */
function schemasOf(input: TSchema, output: TSchema) {
  return { inputSchema: toldSchema(withScalars(writtenSchema(input))), outputSchema: toldSchema(output) }
}

interface Told {
  /** `<family>.<name>`, as flows write it in `type`. */
  readonly id: string
  readonly name: string
  readonly category: PluginManifest['category']
  readonly description: string
  /** A whole flow in YAML that runs as it stands. */
  readonly example: string
}

interface PluginDeclaration<Input extends TObject, Output extends TSchema> extends Told {
  /** Every property has a description, a default where it is optional, and an example. */
  readonly input: Input
  readonly output: Output
  /** What it takes to run: a server, a binary, an account. */
  readonly needs?: string
  /**
   * `pure`: may run as often as one likes. `idempotent` (the default): runs again after a crash, with the same key. `once`: never again
   * without somebody saying so.
   */
  readonly effect?: PluginManifest['effect']
  readonly run: (given: TaskRun<Static<Input>>) => Promise<Static<Output>>
}

interface ControlDeclaration<Input extends TObject> extends Told {
  readonly input: Input
  readonly output: TSchema
  /** Names of the blocks it has beside its properties. */
  readonly blocks: string[]
  readonly decide: (given: ControlRun<Static<Input>>) => Opening | Promise<Opening>
}

export interface Plugin {
  readonly manifest: PluginManifest
  /** As it was declared: what its properties are checked against. */
  readonly input: TSchema
  readonly output: TSchema
  /** Gives its outputs, or what it opens. */
  readonly run: (given: TaskRun<unknown>) => Promise<unknown>
}

/** What a control task gives instead of outputs. */
export class Opened {
  readonly opening: Opening
  constructor(opening: Opening) {
    this.opening = opening
  }
}

export interface ControlRun<Input> extends TaskRun<Input> {
  /** How often a loop's condition has been asked before. */
  readonly round: number
  /** The names of the blocks that the flow has given it. */
  readonly blocks: readonly string[]
  /** The id that an execution it starts has: the same for the same attempt. */
  readonly childId: string
}

/** What a plugin gets. */
export interface TaskRun<Input> {
  /** Checked against its schema, with defaults filled in, templates rendered and credentials put in. */
  readonly input: Input
  /** Aborted when the task is cancelled or out of time: stop, and let go of everything. */
  readonly signal: AbortSignal
  readonly log: TaskLog
  /** The same for every attempt of this task run: hand it on to whatever can make use of it. */
  readonly idempotencyKey: string
  /** An empty folder of this attempt, made when first asked for and removed afterwards. */
  readonly scratch: () => Promise<string>
  readonly services: TaskServices
  readonly task: TaskIdentity
}

export interface TaskIdentity {
  readonly executionId: string
  readonly flowId: string
  readonly namespace: string
  /** Key of the task run. */
  readonly run: string
  readonly attempt: number
}

export type TaskLog = Readonly<Record<'debug' | 'info' | 'warn' | 'error', (message: string) => void>>

/** What of the platform a plugin may use. */
export interface TaskServices {
  /** As the global one, under the platform's egress policy; it resolves when the body is there. */
  readonly fetch: (target: string | URL | Request, init?: TaskRequestInit) => Promise<Response>
  /** For protocols other than HTTP, under the same policy. */
  readonly net: TaskNet
  /** The key-value store of the flow's namespace, or of another one. */
  readonly kv: TaskKv
  readonly files: TaskFiles
  /** Whether scripts may run on this worker. */
  readonly scripts: boolean
  /** Where an engine for containers listens that they may use; null where there is none. */
  readonly containers: string | null
  /** Stores a JSON value where it belongs: with the event while it is small, else in the object store. */
  readonly value: (json: unknown) => Promise<Value>
}

export interface TaskRequestInit extends RequestInit {
  /** The body ends with what has come when `until` is aborted: for streams that have no end of their own. */
  readonly partial?: { readonly until: AbortSignal; readonly onChunk: (chunk: Buffer) => void }
}

/** Connections of tasks. A host name is looked up once, and only addresses that were checked are connected to. */
export interface TaskNet {
  /**
   * An open TCP connection; it is destroyed when the signal is aborted.
   * @throws {TaskFailure} `refused` for what may not be connected to, `unavailable` or `timeout` for what is not there
   */
  connect(target: NetTarget): Promise<Socket>
  /**
   * For libraries that connect by themselves: give them these addresses and no name.
   * @throws {TaskFailure} as above
   */
  resolve(host: string, signal: AbortSignal): Promise<readonly { readonly address: string; readonly family: number }[]>
}

export interface NetTarget {
  readonly host: string
  readonly port: number
  readonly signal: AbortSignal
  /** Default 10 000. */
  readonly timeoutMs?: number
}

export interface TaskKv {
  get(namespace: string, key: string): Promise<{ readonly value: unknown; readonly version: number } | null>
  /** @throws {TaskFailure} `refused` when the key is at another version. */
  put(
    namespace: string,
    key: string,
    value: unknown,
    options?: { readonly ttlMs?: number; readonly version?: number },
  ): Promise<number>
  delete(namespace: string, key: string): Promise<boolean>
  keys(namespace: string, prefix: string): Promise<readonly string[]>
}

/** Files that tasks hand to each other: a URI in their outputs, the bytes in the object store. */
export interface TaskFiles {
  /** @returns `busbar:///files/<digest>` */
  put(bytes: Uint8Array | AsyncIterable<Uint8Array>): Promise<{ readonly uri: string; readonly sizeBytes: number }>
  get(uri: string): Promise<Uint8Array>
}

/** A task's own no: `refused` is final, `unavailable` and `timeout` can be tried again. */
export class TaskFailure extends Error {
  override readonly name = 'TaskFailure'
  readonly kind: 'refused' | 'unavailable' | 'timeout'
  constructor(kind: TaskFailure['kind'], message: string, cause?: unknown) {
    super(message, { cause })
    this.kind = kind
  }
}
