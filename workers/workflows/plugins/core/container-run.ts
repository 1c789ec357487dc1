import { createHash, randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { offThread } from '../off-thread.ts'
import { ContainerEngine, demultiplexer } from './container-engine.ts'
import { contentOf, takeFiles, takeText } from './script-files.ts'
import type { ScriptLanguage } from './script-language.ts'
import { ScriptOutputs } from './script-output.ts'
import type { ScriptInput } from './script-properties.ts'
import { outputName, variablesOf } from './script-variables.ts'

const folder = '/work'
/** Of nobody: an image may think otherwise, but has no say. */
const account = 65_534
const maxFolderBytes = 128 * 1024 ** 2
const removeMs = 5_000
/** Tells the containers of an attempt from those of the others. */
const runLabel = 'busbar.run'
const archives = new URL('../transforms/compress-thread.ts', import.meta.url).href

interface ContainerDetail {
  readonly Id: string
  readonly Config?: { readonly Labels?: Readonly<Record<string, string>> }
}

/**
 * Runs a script in a container: as nobody, without capabilities, within limits, with a folder of its own and nothing of the machine.
 * @throws {TaskFailure} `refused` without an engine or the image, and as the engine says
 */
export async function runInContainer(task: TaskRun<ScriptInput>, language: ScriptLanguage) {
  const { input, services, signal, idempotencyKey } = task
  if (services.containers === null) {
    throw new TaskFailure(
      'refused',
      'There is no container engine on this worker: app.workflows.containers says where it listens',
    )
  }
  const engine = new ContainerEngine(services.containers, signal)
  // One of an attempt before, whose worker has ended meanwhile, goes.
  const name = `busbar-${createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 32)}`
  const run = randomUUID()
  await remove(engine, name)
  try {
    const id = await create(engine, name, settingsOf(task, language, run))
    await engine.ask('PUT', `/containers/${id}/archive?path=/`, { body: await folderOf(task, language) })
    await engine.ask('POST', `/containers/${id}/start`, { expected: [304] })
    const ended = await follow(engine, id, task)
    return { ended, ...(await left(engine, id, task, input.exitCodes.includes(ended.exitCode))) }
  } finally {
    await removeOwn(new ContainerEngine(services.containers, AbortSignal.timeout(removeMs)), name, run).catch(
      () => undefined,
    )
  }
}

/** Not that of a later attempt, which has the same name. */
async function removeOwn(engine: ContainerEngine, name: string, run: string): Promise<void> {
  const { status, body } = await engine.ask('GET', `/containers/${name}/json`, { expected: [404] })
  if (status === 404) return
  const { Id, Config } = JSON.parse(body.toString()) as ContainerDetail
  if (Config?.Labels?.[runLabel] === run) await remove(engine, Id)
}

/** `container`: its name or its id. */
async function remove(engine: ContainerEngine, container: string): Promise<void> {
  await engine.ask('DELETE', `/containers/${container}?force=true&v=true`, { expected: [404, 409] })
}

/** Answers its id. */
async function create(engine: ContainerEngine, name: string, settings: { readonly Image: string }): Promise<string> {
  const path = `/containers/create?name=${name}`
  let { status, body } = await engine.ask('POST', path, { json: settings, expected: [404] })
  if (status === 404) {
    await engine.pull(settings.Image)
    body = (await engine.ask('POST', path, { json: settings })).body
  }
  return (JSON.parse(body.toString()) as ContainerDetail).Id
}

function settingsOf(task: TaskRun<ScriptInput>, { inContainer, file }: ScriptLanguage, run: string) {
  const { image, command, script, args, stdin, network, cpuSeconds, memoryMb, processes, fileMb } = task.input
  const own = script === undefined ? (command ?? []) : [...inContainer.command, `${folder}/${file}`]
  const reading = ['/bin/sh', '-c', `exec "$@" < ${folder}/${stdinName}`, 'sh']
  const limit = (name: string, value: number) => ({ Name: name, Soft: value, Hard: value })
  return {
    Image: image ?? inContainer.image,
    ...(own.length > 0 && { Entrypoint: [], Cmd: [...(stdin === '' ? [] : reading), ...own, ...args] }),
    Env: Object.entries(variablesOf(task, folder)).map(([name, value]) => `${name}=${value}`),
    WorkingDir: folder,
    User: `${account}:${account}`,
    Labels: { 'busbar.execution': task.task.executionId, [runLabel]: run },
    NetworkDisabled: !network,
    HostConfig: {
      NetworkMode: network ? 'bridge' : 'none',
      Memory: memoryMb * 1024 ** 2,
      PidsLimit: processes,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Ulimits: [limit('cpu', cpuSeconds), limit('fsize', fileMb * 1024 ** 2), limit('core', 0)],
    },
  }
}

const stdinName = '.busbar-stdin'

/** The folder that the script finds, as a tar. */
async function folderOf({ input, services, signal }: TaskRun<ScriptInput>, language: ScriptLanguage) {
  const { pack } = await import('tar-stream')
  const tar = pack()
  const owner = { uid: account, gid: account }
  const names = new Set<string>()
  const add = (name: string, content: Uint8Array | string) => {
    if (name.split('/').includes('..') || name.startsWith('/') || names.has(name))
      throw new TaskFailure(
        'refused',
        `properties.files: ${JSON.stringify(name.slice(0, 100))} is no name that is free`,
      )
    names.add(name)
    tar.entry({ name: `${folder.slice(1)}/${name}`, mode: 0o600, ...owner }, Buffer.from(content as Uint8Array))
  }
  tar.entry({ name: `${folder.slice(1)}/`, type: 'directory', mode: 0o700, ...owner })
  if (input.script !== undefined) add(language.file, input.script)
  if (input.stdin !== '') add(stdinName, input.stdin)
  for (const [name, given] of Object.entries(input.files)) add(name, await contentOf(given, services.files))
  signal.throwIfAborted()
  tar.finalize()
  const parts: Buffer[] = []
  for await (const part of tar as unknown as AsyncIterable<Buffer>) parts.push(part)
  return Buffer.concat(parts)
}

/** What it writes, until it has ended. */
async function follow(engine: ContainerEngine, id: string, { log }: TaskRun<ScriptInput>) {
  const outputs = new ScriptOutputs(log)
  const onChunk = demultiplexer(
    (part) => outputs.stdout.add(part),
    (part) => outputs.stderr.add(part),
  )
  const [{ body }] = await Promise.all([
    engine.ask('POST', `/containers/${id}/wait`),
    engine.ask('GET', `/containers/${id}/logs?follow=true&stdout=true&stderr=true`, { onChunk }),
  ])
  outputs.stdout.end()
  outputs.stderr.end()
  const { StatusCode } = JSON.parse(body.toString()) as { StatusCode?: number }
  return outputs.ended(StatusCode ?? 1)
}

/** What it has left in its folder, when that is wanted. */
async function left(engine: ContainerEngine, id: string, task: TaskRun<ScriptInput>, isRight: boolean) {
  if (!isRight) return { written: null, files: {} }
  const { body: bytes, status } = await engine.ask('GET', `/containers/${id}/archive?path=${folder}`, {
    maxBytes: maxFolderBytes,
    expected: [404],
  })
  if (status === 404) return { written: null, files: {} }
  const { signal, services, input } = task
  const argument = { format: 'tar', bytes, maxBytes: maxFolderBytes, maxEntries: 10_000 }
  const entries = await offThread<{ name: string; bytes: Uint8Array }[]>(
    { module: archives, call: 'unpackArchive', argument },
    signal,
  )
  const scratch = await task.scratch()
  for (const { name: path, bytes: content } of entries) {
    const place = join(scratch, path)
    await mkdir(dirname(place), { recursive: true })
    await writeFile(place, content, { flag: 'wx' })
  }
  const kept = join(scratch, folder.slice(1))
  await mkdir(kept, { recursive: true })
  const files = await takeFiles(kept, input.outputFiles, { files: services.files, account: null })
  return { written: await takeText(kept, outputName, null), files }
}
