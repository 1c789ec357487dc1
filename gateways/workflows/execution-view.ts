import type { Bus } from '../../bus/connect.ts'
import { readBytes } from '../../bus/objects.ts'
import type { ExecutionRecord, TaskRecord } from '../../projections/workflows/executions-read.ts'
import type { Value } from '../../schemas/workflows/task-result.ts'

/** Outputs larger than this are not written into an answer; the task's own route has them. */
const maxShownBytes = 1024 * 1024

/** As the specification writes an execution, and what we add. */
export async function shownExecution(bus: Bus, record: ExecutionRecord) {
  const { outputs, failure, ...told } = record
  return {
    ...told,
    outputs: outputs === null ? null : await outputText(bus, outputs),
    error: failure === null ? null : failure.message,
    failedTask: failure?.task ?? null,
  }
}

/** As the specification writes a task result: `outputs` is JSON text. */
export async function shownTask(bus: Bus, { outputs, failure, ...told }: TaskRecord) {
  return {
    ...told,
    outputs: outputs === null ? null : await outputText(bus, outputs),
    error: failure === null ? null : failure.message,
    errorKind: failure?.kind ?? null,
    durationMs: durationMs(told.startedAt, told.finishedAt),
  }
}

/** JSON text, or where to get it when it is long. @throws {ObjectDamaged}; {BusUnavailable} */
export async function outputText(bus: Bus, value: Value): Promise<string> {
  if ('json' in value) return JSON.stringify(value.json)
  if (value.sizeBytes > maxShownBytes) return JSON.stringify({ truncated: true, sizeBytes: value.sizeBytes })
  return Buffer.from(await readBytes(bus, value.object)).toString('utf8')
}

/** The whole value as JSON text, however long. @throws {ObjectDamaged}; {BusUnavailable} */
export async function wholeText(bus: Bus, value: Value): Promise<string> {
  if ('json' in value) return JSON.stringify(value.json)
  return Buffer.from(await readBytes(bus, value.object)).toString('utf8')
}

function durationMs(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : Date.parse(to) - Date.parse(from)
}
