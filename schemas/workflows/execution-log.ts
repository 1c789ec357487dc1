import { type Static, Type } from 'typebox'

/** One line of an execution's log, as SSE and WebSocket clients get it. */
export const ExecutionLogLine = Type.Object(
  {
    timestamp: Type.String({ description: 'RFC 3339, UTC, milliseconds' }),
    level: Type.Union([Type.Literal('debug'), Type.Literal('info'), Type.Literal('warn'), Type.Literal('error')]),
    executionId: Type.String(),
    taskName: Type.String(),
    /** Key of the task run. */
    run: Type.String(),
    attempt: Type.Integer(),
    message: Type.String(),
  },
  { additionalProperties: false },
)
export type ExecutionLogLine = Static<typeof ExecutionLogLine>

/** What lies on `log.execution.<id>`: lines in their order. */
export const ExecutionLogBatch = Type.Object({ lines: Type.Array(ExecutionLogLine) }, { additionalProperties: false })
export type ExecutionLogBatch = Static<typeof ExecutionLogBatch>
