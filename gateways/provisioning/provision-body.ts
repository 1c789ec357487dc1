import type { FastifyRequest } from 'fastify'
import { cronMistake } from '../../schemas/cron.ts'
import type { BackupSettings, Requested } from '../../schemas/provisioning/instance-facts.ts'
import {
  databaseNameMistake,
  namespaceOf,
  projectNamePattern,
  userNameMistake,
} from '../../schemas/provisioning/names.ts'
import { databaseTypes, tierNames, tiers } from '../../schemas/provisioning/tiers.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { choiceField, flagField, textField, textsField, wholeNumber } from './request.ts'

const members = [
  'projectName',
  'orgId',
  'databaseType',
  'tier',
  'backup',
  'parameters',
  'parameterGroupName',
  'tags',
  'postgresVersion',
  'databaseName',
  'masterUsername',
]
const namePattern = new RegExp(projectNamePattern)
const tagPattern = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/
const maxTags = 50
export const parameterLimits = { maxEntries: 200, maxLength: 4_096 }
const standardBackup: BackupSettings = { enabled: false, schedule: '0 0 * * *', retention: 7 }
const maxRetentionDays = 365

/** What `POST /provision` asks for. Source: specification, resources of D. @throws {Rejected} `http/bad-request` naming the field */
export function provisionBody(
  request: FastifyRequest,
  own: { readonly uid: string; readonly by: string; readonly at: number },
): Requested {
  const body = bodyOf(request, members)
  const projectName = nameField('projectName', body.projectName)
  const orgId = nameField('orgId', body.orgId)
  const namespace = namespaceOf(orgId, projectName)
  if (namespace === null) throw invalid('orgId', 'and projectName make a namespace of more than 63 characters')
  const databaseType = choiceField('databaseType', body.databaseType, databaseTypes)
  const tier = choiceField('tier', body.tier, tierNames)
  const { parameterGroupName, postgresVersion } = body
  if (postgresVersion !== undefined && databaseType !== 'POSTGRESQL') {
    throw invalid('postgresVersion', `is not for ${databaseType}`)
  }
  return {
    ...own,
    projectName,
    orgId,
    namespace,
    databaseType,
    tier,
    version: postgresVersion === undefined ? null : versionField('postgresVersion', postgresVersion),
    databaseName: checked('databaseName', body.databaseName, databaseNameMistake),
    masterUsername: checked('masterUsername', body.masterUsername, userNameMistake),
    parameters: body.parameters === undefined ? {} : textsField('parameters', body.parameters, parameterLimits),
    parameterGroup: parameterGroupName === undefined ? null : nameField('parameterGroupName', parameterGroupName),
    tags: body.tags === undefined ? {} : tagsField(body.tags),
    backup: body.backup === undefined ? standardBackup : backupField('backup', body.backup),
    storageBytes: tiers[tier].storageBytes,
    source: null,
  }
}

/** @throws {Rejected} `http/bad-request` */
export function nameField(field: string, value: unknown): string {
  const name = textField(field, value, { max: 100 })
  if (namePattern.test(name)) return name
  throw invalid(field, 'must be 1 to 40 of a-z, 0-9 and -, begin with a letter and not end with -')
}

/** `16`, or `16.4`. @throws {Rejected} `http/bad-request` */
export function versionField(field: string, value: unknown): string {
  const version = textField(field, value, { max: 20 })
  if (/^\d{1,3}(\.\d{1,3}){0,2}$/.test(version)) return version
  throw invalid(field, 'must be a version such as 17 or 17.2')
}

function checked(field: string, value: unknown, mistakeOf: (name: string) => string | null): string {
  if (value === undefined) return 'app'
  const name = textField(field, value, { max: 63 })
  const mistake = mistakeOf(name)
  if (mistake !== null) throw invalid(field, mistake)
  return name
}

/** They become labels. Source: Kubernetes, labels and selectors. */
function tagsField(value: unknown): Readonly<Record<string, string>> {
  const tags = textsField('tags', value, { maxEntries: maxTags, maxLength: 63 })
  for (const [name, text] of Object.entries(tags)) {
    if (!tagPattern.test(name)) throw invalid(`tags.${name.slice(0, 63)}`, 'has a name that no label may have')
    if (text !== '' && !tagPattern.test(text)) throw invalid(`tags.${name}`, 'has a value that no label may have')
  }
  return tags
}

/** @throws {Rejected} `http/bad-request` */
function backupField(field: string, value: unknown): BackupSettings {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(field, 'must be an object')
  return backupMembers(value as Record<string, unknown>, { ...standardBackup, enabled: true }, `${field}.`)
}

/** What is not given stays. @throws {Rejected} `http/bad-request` */
export function backupMembers(
  given: Readonly<Record<string, unknown>>,
  before: BackupSettings,
  path = '',
): BackupSettings {
  const unknown = Object.keys(given).find((name) => !['enabled', 'schedule', 'retention'].includes(name))
  if (unknown !== undefined) throw invalid(`${path}${unknown.slice(0, 100)}`, 'is no field here')
  const { enabled, schedule, retention } = given
  return {
    enabled: enabled === undefined ? before.enabled : flagField(`${path}enabled`, enabled),
    schedule: schedule === undefined ? before.schedule : cronField(`${path}schedule`, schedule),
    retention:
      retention === undefined
        ? before.retention
        : wholeNumber(`${path}retention`, retention, { min: 1, max: maxRetentionDays }),
  }
}

/** Five fields, UTC. @throws {Rejected} `http/bad-request` */
export function cronField(field: string, value: unknown): string {
  const cron = textField(field, value, { max: 100 }).trim()
  const five = cron.startsWith('@') || cron.split(/\s+/).length === 5
  const mistake = five ? cronMistake({ cron }, Date.now()) : 'must be a cron expression of five fields'
  if (mistake === null) return cron
  throw invalid(field, five ? `is no cron expression: ${mistake}` : mistake)
}
