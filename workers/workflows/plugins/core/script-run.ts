import { chmod, chown } from 'node:fs/promises'
import { join } from 'node:path'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import { runInContainer } from './container-run.ts'
import { runInCluster } from './kubernetes-run.ts'
import { scriptAccount, scriptPath } from './script-account.ts'
import { cageOf } from './script-cage.ts'
import { contentOf, giveFile, takeFiles, takeText } from './script-files.ts'
import type { ScriptLanguage } from './script-language.ts'
import type { ScriptEnd } from './script-output.ts'
import { runProcess } from './script-process.ts'
import type { ScriptInput } from './script-properties.ts'
import { outputName, variablesOf } from './script-variables.ts'

const environmentName = '.busbar-environment'
const maxOutputLength = 10 * 1024 * 1024
const tryAgain = 75
const maxTold = 500

/**
 * Runs a script where it is to run, and takes what it has left.
 * @throws {TaskFailure} `refused` where scripts may not run or its language is not there, and for its failure
 */
export async function runScript(task: TaskRun<ScriptInput>, language: ScriptLanguage) {
  const { input, services } = task
  if (input.runner === 'kubernetes') {
    const { ended, objects } = await runInCluster(task, language)
    return { ...checked(ended, input), outputs: outputsOf(null, ended.stdout), files: {}, objects }
  }
  if (!services.scripts) {
    throw new TaskFailure('refused', 'Scripts are not allowed on this worker: app.workflows.scripts=true allows them')
  }
  checkScript(input)
  const { ended, written, files } = await (input.runner === 'container' ? runInContainer : runHere)(task, language)
  return { ...checked(ended, input), outputs: outputsOf(written, ended.stdout), files, objects: [] }
}

function checkScript({ runner, script, command, image }: ScriptInput): void {
  if (runner === 'process' && script === undefined) throw new TaskFailure('refused', 'properties.script is needed')
  if (runner === 'process' && (command ?? image) !== undefined)
    throw new TaskFailure('refused', 'properties.command and properties.image need the runner container or kubernetes')
  if (script !== undefined && command !== undefined)
    throw new TaskFailure('refused', 'properties.script and properties.command: only one of them can be given')
}

function checked(ended: ScriptEnd, input: ScriptInput): ScriptEnd {
  if (input.exitCodes.includes(ended.exitCode)) return ended
  throw failureOf(ended, input)
}

/** On this machine: in a folder of its own as a user of its own, within its limits. */
async function runHere(task: TaskRun<ScriptInput>, language: ScriptLanguage) {
  const { input, services, signal, log } = task
  const account = scriptAccount()
  const program = language.program(account)
  if (program === null) {
    throw new TaskFailure(
      'refused',
      `There is no ${language.name} for scripts on this worker: not in ${scriptPath.join(', ')}`,
    )
  }
  const folder = await task.scratch()
  await layOut(task, folder, language.file, account)
  const environment = await giveFile(folder, environmentName, environmentText(task, folder), account)
  const { network, cpuSeconds, memoryMb, processes, fileMb } = input
  const limits = { cpuSeconds, memoryMb: memoryMb + language.baseMemoryMb, processes, fileMb }
  const cage = await cageOf({ account, limits, memoryOf: language.memoryOf, network, environment })
  const command = [program, ...language.flags(folder, memoryMb), join(folder, language.file), ...input.args]
  const ended = await runProcess({ cage, account, command, folder, stdin: input.stdin, signal, log })
  if (!input.exitCodes.includes(ended.exitCode)) return { ended, written: null, files: {} }
  const files = await takeFiles(folder, input.outputFiles, { files: services.files, account })
  return { ended, written: await takeText(folder, outputName, account), files }
}

async function layOut(
  { input, services }: TaskRun<ScriptInput>,
  folder: string,
  file: string,
  account: number | null,
): Promise<void> {
  await chmod(folder, 0o700)
  if (account !== null) await chown(folder, account, account)
  await giveFile(folder, file, input.script ?? '', account)
  for (const [name, given] of Object.entries(input.files)) {
    await giveFile(folder, name, await contentOf(given, services.files), account).catch((cause: unknown) => {
      if ((cause as { code?: unknown }).code !== 'EEXIST') throw cause
      throw new TaskFailure('refused', `properties.files: ${name} is there already`, cause)
    })
  }
}

function environmentText(task: TaskRun<ScriptInput>, folder: string): string {
  const lines = Object.entries(variablesOf(task, folder)).map(([name, value]) => {
    return `export ${name}='${value.replaceAll("'", `'\\''`)}'\n`
  })
  return lines.join('')
}

function failureOf({ exitCode, stderr, stdout }: ScriptEnd, { cpuSeconds, fileMb }: ScriptInput): TaskFailure {
  const told = (stderr.trim() === '' ? stdout : stderr).trim().slice(-maxTold)
  const reasons: Readonly<Record<number, string>> = {
    137: ': it was ended, by a limit or by the system',
    152: `: it computed for more than ${cpuSeconds} s (properties.cpuSeconds)`,
    153: `: a file became larger than ${fileMb} MB (properties.fileMb)`,
  }
  const text = `The script ended with ${exitCode}${reasons[exitCode] ?? ''}${told === '' ? '' : `: ${told}`}`
  return new TaskFailure(exitCode === tryAgain ? 'unavailable' : 'refused', text)
}

function outputsOf(written: string | null, stdout: string): unknown {
  if (written !== null && written.trim() !== '') {
    if (written.length > maxOutputLength)
      throw new TaskFailure('refused', 'What the script put out is larger than 10 MB')
    try {
      return JSON.parse(written)
    } catch (cause) {
      throw new TaskFailure('refused', 'The script has written no JSON into $BUSBAR_OUTPUT', cause)
    }
  }
  const last = stdout.trimEnd().split('\n').at(-1)!.trim()
  if (!/^[{[]/.test(last)) return null
  try {
    return JSON.parse(last)
  } catch {
    return null
  }
}
