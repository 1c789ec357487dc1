import { TaskFailure } from '../../plugin.ts'
import type { ChatInput } from './chat.ts'

/** The conversation. @throws {TaskFailure} when there is nothing to ask. */
export function messagesOf({
  prompt,
  messages = [],
}: ChatInput): readonly { role: 'user' | 'assistant'; content: string }[] {
  const all = prompt === undefined ? messages : [...messages, { role: 'user' as const, content: prompt }]
  if (all.length === 0) throw new TaskFailure('refused', 'properties needs a prompt or messages')
  return all
}

export interface Told {
  readonly text: string
  readonly stopReason: unknown
  readonly inputTokens: unknown
  readonly outputTokens: unknown
}

/** @throws {TaskFailure} `unavailable` when the answer should be JSON and is not: another try may do better. */
export function answered({ text, stopReason, inputTokens, outputTokens }: Told, { schema }: ChatInput) {
  const usage = { inputTokens: Number(inputTokens ?? 0), outputTokens: Number(outputTokens ?? 0) }
  const told = { text, stopReason: String(stopReason ?? ''), ...usage }
  if (schema === undefined) return { ...told, json: null }
  try {
    return { ...told, json: JSON.parse(text.replace(/^\s*```(?:json)?\s*|\s*```\s*$/g, '')) as unknown }
  } catch (cause) {
    throw new TaskFailure('unavailable', 'The model answered with something that is not JSON', cause)
  }
}

/** For services that take no schema: what they are told beside. */
export function asksForJson({ system, schema }: ChatInput): string | undefined {
  if (schema === undefined) return system
  const told = `Answer with JSON alone that fits this JSON Schema: ${JSON.stringify(schema)}`
  return system === undefined ? told : `${system}\n\n${told}`
}
