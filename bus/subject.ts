import { platformRoots } from './message.ts'

/**
 * One token of a subject out of any text, reversibly: everything but letters, digits, `_` and `-` becomes `%XX` of its UTF-8 bytes, so
 * dots, spaces, wildcards and empty names cannot change what a subject means. The empty text is a lone `%`.
 */
export function escapeToken(text: string): string {
  if (text === '') return '%'
  return Buffer.from(text, 'utf8')
    .toString('latin1')
    .replace(/[^A-Za-z0-9_-]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
}

/** The text an escaped token stands for. */
export function unescapeToken(token: string): string {
  return token === '%' ? '' : decodeURIComponent(token)
}

/** `evt.<component>.<entity>.<id>`: one aggregate. */
export function eventSubject(component: string, entity: string, id: string): string {
  return subject('evt', component, entity, id)
}

/** `command.executions.<id>`: something an execution has to decide on. */
export function executionSubject(executionId: string): string {
  return subject('command', 'executions', executionId)
}

/** `task.<group>.<id>`: an attempt at a task that any worker of the group may run. */
export function taskSubject(group: string, id: string): string {
  return subject('task', group, id)
}

/** Matches all tasks of a group. */
export function taskSubjects(group: string): string {
  return `${subject('task', group)}.>`
}

/** The consumer of the tasks of a group: there is one from the moment on that a worker has served it. */
export function taskConsumer(group: string): string {
  return `workers-workflows-tasks-${group}`
}

/** `abort.executions.<id>`, on core NATS: what workers run of it is to stop. */
export function abortSubject(executionId: string): string {
  return subject('abort', 'executions', executionId)
}

/** Matches the aborts of all executions. */
export const abortSubjects = 'abort.executions.*'

/** `ended.executions.<execution>`, on core NATS: it has ended, and is stored so. For those who wait; it may get lost. */
export function endedSubject(executionId: string): string {
  return subject('ended', 'executions', executionId)
}

/** Matches the ends of all executions. */
export const endedSubjects = 'ended.executions.*'

/** `projected.<projection>`, on core NATS: how far it is. */
export function projectedSubject(projection: string): string {
  return subject('projected', projection)
}

/** `waiting.<flow>.<execution>`: an execution that waits for one of its flow's places. */
export function waitingSubject(flowId: string, executionId: string): string {
  return subject('waiting', flowId, executionId)
}

/** Matches all that wait for a place of a flow. */
export function waitingSubjects(flowId: string): string {
  return `${subject('waiting', flowId)}.*`
}

/** `delivery.<trigger>`: what a webhook was sent and has not handed on yet. */
export function deliverySubject(triggerId: string): string {
  return subject('delivery', triggerId)
}

/** `backlog.executions.<lane>.<execution>`: one that waits because its flow or namespace has its share of a worker already. */
export function backlogSubject(lane: number, executionId: string): string {
  return subject('backlog', 'executions', String(lane), executionId)
}

/** `backlog.tasks.<group>.<lane>.<id>`: a task on the queue that waits for the same reason. */
export function taskBacklogSubject(group: string, lane: number, id: string): string {
  return subject('backlog', 'tasks', group, String(lane), id)
}

/** Matches what waits of executions in a lane. */
export function backlogSubjects(lane: number): string {
  return `${subject('backlog', 'executions', String(lane))}.*`
}

/** Matches what waits of a group's tasks in a lane. */
export function taskBacklogSubjects(group: string, lane: number): string {
  return `${subject('backlog', 'tasks', group, String(lane))}.>`
}

/** `timer.<purpose>.<id>`: one timer; a second schedule on it takes the place of the first. */
export function timerSubject(purpose: string, id: string): string {
  return subject('timer', purpose, id)
}

/** `due.<purpose>.<id>`: where a timer's message comes out when its time has come. */
export function dueSubject(purpose: string, id: string): string {
  return subject('due', purpose, id)
}

/** Matches every timer of a purpose that is due. */
export function dueSubjects(purpose: string): string {
  return `${subject('due', purpose)}.>`
}

/** `count.<name…>`: one counter. */
export function counterSubject(...name: readonly [string, ...string[]]): string {
  return subject('count', ...name)
}

/** `dead.<consumer>.<subject>`: what a consumer gave up on. The subject keeps its own dots. */
export function deadSubject(consumer: string, original: string): string {
  return `${subject('dead', consumer)}.${original}`
}

/** Matches everything that a consumer, or any, gave up on. */
export function deadSubjects(consumer?: string): string {
  return consumer === undefined ? 'dead.>' : `${subject('dead', consumer)}.>`
}

/** `call.<gateway>.<slot>`: synchronous calls of functions. Few subjects, each used again and again: new ones cost the server more. */
export function callSubject(gateway: string, slot: number): string {
  return subject('call', gateway, String(slot))
}

/** The gateway that a message of calls came from; it has no characters that would be escaped. */
export function callingGateway(callSubject: string): string {
  return callSubject.slice(callSubject.indexOf('.') + 1, callSubject.lastIndexOf('.'))
}

/** `answers.<gateway>`, on core NATS: answers of the calls. */
export function answersSubject(gateway: string): string {
  return subject('answers', gateway)
}

/** `invocation.<id>`: an asynchronous call of a function that is not done. */
export function invocationSubject(id: string): string {
  return subject('invocation', id)
}

/** `outcome.<id>`: what became of it. */
export function outcomeSubject(id: string): string {
  return subject('outcome', id)
}

/** `$KV.<bucket>.kv.<owner>.<key>`: a value that a function or a namespace keeps. The characters of a key are fewer than those of a subject. */
export function ownedKeySubject(bucket: string, owner: string, key: string): string {
  return `$KV.${bucket}.${subject('kv', owner, key).replaceAll('%', '=')}`
}

/** Matches all values that an owner keeps. */
export function ownedKeysSubject(bucket: string, owner: string): string {
  return `$KV.${bucket}.${subject('kv', owner).replaceAll('%', '=')}.*`
}

/** `session.<id>`: a user's session. */
export function sessionSubject(id: string): string {
  return subject('session', id)
}

/** `attempt.<kind>.<key>`: how often something was tried lately. */
export function attemptSubject(kind: string, key: string): string {
  return subject('attempt', kind, key)
}

/** `log.<entity>.<id>`: log lines. */
export function logSubject(entity: string, id: string): string {
  return subject('log', entity, id)
}

/** `functions.<presence|ask|flush>`, on core NATS: a worker says that it is there; who is there?; counters shall be flushed. */
export function functionWorkersSubject(part: 'presence' | 'ask' | 'flush'): string {
  return subject('functions', part)
}

/** `metric.<entity>.<id>`: samples. */
export function metricSubject(entity: string, id: string): string {
  return subject('metric', entity, id)
}

/** `provisioning.<place>`, on core NATS: questions to the worker that looks after a place, or to any of them. */
export function provisioningSubject(place: string | 'any'): string {
  return subject('provisioning', place)
}

/** `cdc.<source>.<schema>.<table>`: what the subjects of all changes of a table begin with. */
export function tableSubject(source: string, schema: string, table: string): string {
  return subject('cdc', source, schema, table)
}

/** `cdc.<source>.<schema>.<table>.<insert|update|delete|truncate>` */
export function changeSubject(source: string, schema: string, table: string, operation: string): string {
  return subject('cdc', source, schema, table, operation)
}

/** `cdc.<source>.command`: API calls that wrote, before the changes they made. */
export function commandSubject(source: string): string {
  return subject('cdc', source, 'command')
}

/** `cdc.<source>.gap`: changes may be missing here. */
export function gapSubject(source: string): string {
  return subject('cdc', source, 'gap')
}

/** Matches everything of a source. */
export function sourceSubjects(source: string): string {
  return `${subject('cdc', source)}.>`
}

/** `capture.<source>.<status|ask>`, on core NATS: `status` carries how a change capture stands, `ask` asks for it. */
export function captureSubject(source: string, part: 'status' | 'ask'): string {
  return subject('capture', source, part)
}

function subject(prefix: string, ...texts: readonly string[]): string {
  return [prefix, ...texts.map(escapeToken)].join('.')
}

/** Match everything that the platform sends, but for the client's own: `$JS`, `$KV`, `$O` and inboxes. */
export const platformSubjects: readonly string[] = platformRoots.map((root) => `${root}.>`)
