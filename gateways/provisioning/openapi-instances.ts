import {
  body,
  failures,
  flag,
  json,
  listOf,
  none,
  nullable,
  type Operation,
  type Operations,
  object,
  once,
  oneOf,
  otherBody,
  query,
  ref,
  text,
  texts,
  time,
  wait,
  whole,
} from './openapi-parts.ts'

const busy = failures({
  409: 'Another operation is under way, or the instance is not in a state for it',
  422: otherBody,
})
const instance = json('The instance', ref('Instance'))
const underWay = json('It is under way: `operation` says how far', ref('Instance'))
const made = {
  201: json('It is ready', ref('Instance')),
  202: underWay,
  ...failures({ 409: 'The name or its namespace is taken', 422: otherBody, 429: 'A limit is reached' }),
}
const tier = oneOf('FREE', 'STANDARD', 'ENTERPRISE')
const databaseType = oneOf('POSTGRESQL', 'MYSQL', 'MONGODB')
const backup = object({ enabled: flag, schedule: text, retention: { ...whole, description: 'Days', minimum: 1 } })
const window = object(
  { window: { ...text, description: 'cron, five fields, UTC' }, durationMinutes: whole, autoMinorVersionUpgrade: flag },
  ['window', 'durationMinutes'],
)

function change(summary: string, schema: object, more: Readonly<Record<string, string>> = {}): Operation {
  return {
    summary,
    parameters: [wait, once],
    requestBody: body(schema),
    responses: { 200: instance, 202: underWay, ...none, ...busy, ...failures(more) },
  }
}

const at = '/api/provision/{projectId}'

/** Instances, and what changes them. */
export const instanceOperations: Operations = {
  'GET /api/provision': {
    summary: 'All instances, the oldest first',
    parameters: [
      query('orgId', 'Of this organization'),
      query('status', 'With this status'),
      query('databaseType', 'Of this type', databaseType),
      query('tier', 'Of this tier', tier),
    ],
    responses: { 200: json('Instances', listOf(ref('Instance'))) },
  },
  'POST /api/provision': {
    summary: 'Provisions a database',
    parameters: [wait, once],
    requestBody: body(
      object(
        {
          projectName: { ...text, pattern: '^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$' },
          orgId: { ...text, pattern: '^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$' },
          databaseType,
          tier,
          backup,
          parameters: texts,
          parameterGroupName: text,
          tags: texts,
          postgresVersion: { ...text, examples: ['17'] },
          databaseName: { ...text, default: 'app' },
          masterUsername: { ...text, default: 'app' },
        },
        ['projectName', 'orgId', 'databaseType', 'tier'],
      ),
    ),
    responses: {
      ...made,
      ...failures({ 424: 'There is no server of that type or version; the hint says what to do' }),
    },
  },
  'POST /api/provision/estimate': {
    summary: 'What a tier costs',
    requestBody: body(object({ tier }, ['tier'])),
    responses: { 200: json('Amounts in USD', ref('Estimate')) },
  },
  [`GET ${at}`]: {
    summary: 'An instance',
    parameters: [
      query(
        'fresh',
        'true: also what its servers say at the moment, of storage, members and backups',
        oneOf('true', 'false'),
      ),
    ],
    responses: { 200: instance, ...none },
  },
  [`DELETE ${at}`]: {
    summary: 'Removes an instance with everything it has stored',
    parameters: [wait],
    responses: {
      200: json('It is gone', object({ projectId: text, status: text, message: text })),
      202: underWay,
      ...none,
      ...failures({ 409: 'Deletion protection is on, or another operation is under way' }),
    },
  },
  [`GET ${at}/credentials`]: {
    summary: 'Connection details, with the password',
    responses: { 200: json('Credentials', ref('Credentials')), ...none, ...failures({ 409: 'There are none yet' }) },
  },
  [`POST ${at}/credentials/rotate`]: {
    summary: 'Gives the master user a new password',
    parameters: [wait, once],
    responses: { 200: json('The new credentials', ref('Credentials')), 202: underWay, ...none, ...busy },
  },
  [`PATCH ${at}/scale`]: change('Changes the tier: servers and limits', object({ tier }, ['tier'])),
  [`POST ${at}/resize`]: change(
    'Gives more storage',
    object({ newSize: { ...text, examples: ['20Gi'] } }, ['newSize']),
    {
      422: 'Storage cannot shrink',
    },
  ),
  [`POST ${at}/upgrade`]: change('Brings another version', object({ version: text }, ['version']), {
    424: 'There is no server of that version',
  }),
  [`PATCH ${at}/parameters`]: change('Sets parameters of the server', texts, {
    422: 'The server does not know a parameter, or refuses its value',
  }),
  [`PATCH ${at}/deletion-protection`]: {
    summary: 'Turns deletion protection on or off',
    requestBody: body(object({ enabled: flag }, ['enabled'])),
    responses: { 200: json('As it is now', object({ projectId: text, deletionProtection: flag })), ...none },
  },
  [`PUT ${at}/maintenance-window`]: {
    summary: 'When what can wait is done',
    requestBody: body(window),
    responses: { 200: json('As it is now', ref('MaintenanceWindow')), ...none },
  },
  [`GET ${at}/maintenance-window`]: {
    summary: 'The maintenance window',
    responses: { 200: json('The window', ref('MaintenanceWindow')), ...none },
  },
  [`GET ${at}/logs`]: {
    summary: "The end of the primary's log",
    parameters: [query('lines', 'How many', { ...whole, minimum: 1, maximum: 5_000, default: 100 })],
    responses: { 200: json('Lines', ref('Logs')), ...none },
  },
  [`POST ${at}/clone`]: {
    summary: 'A new instance with what this one has now',
    parameters: [wait, once],
    requestBody: body(object({ newProjectName: text }, ['newProjectName'])),
    responses: { ...made, ...none },
  },
  [`POST ${at}/backup/trigger`]: {
    summary: 'Makes a backup',
    parameters: [wait, once],
    responses: {
      200: json('The backup', ref('Backup')),
      202: json('It is being made', ref('Backup')),
      ...none,
      ...busy,
    },
  },
  [`GET ${at}/backup/list`]: {
    summary: 'Backups, and the times that can be restored',
    responses: {
      200: json(
        'Backups',
        object({
          backups: listOf(ref('Backup')),
          backupEnabled: flag,
          schedule: text,
          retentionDays: whole,
          archiving: oneOf('OFF', 'OK', 'FAILING', 'LOST', 'UNKNOWN'),
          earliestRestorableTime: nullable(time),
          latestRestorableTime: nullable(time),
        }),
      ),
      ...none,
    },
  },
  [`POST ${at}/backup/configure`]: {
    summary: 'Changes schedule and retention of backups',
    requestBody: body(backup),
    responses: {
      200: json(
        'As they are now',
        object({ projectId: text, backupEnabled: flag, schedule: text, retentionDays: whole }),
      ),
      ...none,
    },
  },
  [`POST ${at}/backup/restore`]: {
    summary: 'A new instance with what this one had at a time, or in a backup',
    parameters: [wait, once],
    requestBody: body(
      object({
        newProjectId: text,
        newProjectName: { ...text, description: 'The same as newProjectId' },
        targetTime: { ...time, description: 'Absent: the newest state, or with backupId that of the backup' },
        backupId: text,
      }),
    ),
    responses: { ...made, ...none, ...failures({ 422: 'No backup leads to that time; details has the window' }) },
  },
  [`POST ${at}/snapshot/export`]: {
    summary: 'Exports the database into a file',
    parameters: [wait, once],
    requestBody: body(
      object({
        format: oneOf('custom', 'plain', 'directory', 'tar'),
        schemaOnly: flag,
        tables: listOf(text),
        excludeTables: listOf(text),
      }),
      false,
    ),
    responses: {
      200: json('The snapshot', ref('Snapshot')),
      202: json('It is being made', ref('Snapshot')),
      ...none,
      ...busy,
      ...failures({ 424: 'The tools for this version are missing; the error says which' }),
    },
  },
  [`GET ${at}/snapshot`]: {
    summary: 'Snapshots',
    responses: { 200: json('The oldest first', listOf(ref('Snapshot'))), ...none },
  },
  [`GET ${at}/snapshot/{snapshotId}/download`]: {
    summary: 'The file of a snapshot, whole or in part',
    parameters: [{ name: 'Range', in: 'header', schema: text }],
    responses: {
      200: { description: 'The file', content: { 'application/octet-stream': {} } },
      206: { description: 'A part of it', content: { 'application/octet-stream': {} } },
      304: { description: 'It is the one that If-None-Match names' },
      416: { description: 'It has no such part' },
      ...failures({ 404: 'There is no such instance or snapshot' }),
    },
  },
  [`DELETE ${at}/snapshot/{snapshotId}`]: {
    summary: 'Deletes a snapshot',
    responses: {
      200: json('It is gone', object({ status: text, snapshotId: text })),
      ...failures({ 404: 'There is no such instance or snapshot' }),
    },
  },
  [`POST ${at}/migrations`]: {
    summary: 'Runs a migration as the master user, in one transaction',
    requestBody: body(object({ version: text, name: text, sql: text, description: text }, ['version', 'name', 'sql'])),
    responses: {
      200: json('What became of it: `status` is APPLIED or FAILED', ref('Migration')),
      ...none,
      ...failures({ 409: 'The version was applied with another text' }),
    },
  },
  [`GET ${at}/migrations`]: {
    summary: 'Migrations',
    responses: { 200: json('The oldest first', listOf(ref('Migration'))), ...none },
  },
}
