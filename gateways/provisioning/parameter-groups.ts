import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import { load } from '../../bus/load.ts'
import { eventSubject } from '../../bus/subject.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { Instance } from '../../schemas/provisioning/instance.ts'
import {
  decideDeleteGroup,
  decideSaveGroup,
  type GroupState,
  parameterGroup,
  requireGroup,
  type SavedGroup,
} from '../../schemas/provisioning/parameter-group.ts'
import { databaseTypes } from '../../schemas/provisioning/tiers.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { requireParameters } from './ask.ts'
import { time } from './instance-view.ts'
import { nameField, parameterLimits } from './provision-body.ts'
import { choiceField, operationIdOf, textField, textsField } from './request.ts'
import type { ProvisioningService } from './service.ts'

interface ByName {
  readonly Params: { readonly name: string }
}

const maxGroups = 1_000
const members = ['name', 'description', 'databaseType', 'parameters']

function groupPlace(name: string) {
  return { stream: 'EVT_PROVISIONING', subject: eventSubject('provisioning', 'parameter-group', name) }
}

/** Parameters under a name, for any number of instances. */
export function parameterGroupRoutes(app: FastifyInstance, service: ProvisioningService): void {
  app.get('/api/parameter-groups', async () => {
    const all = [...service.groups.values()].sort((left, right) => left.createdAt - right.createdAt)
    return all.map((group) => shown(service, group))
  })
  app.post('/api/parameter-groups', async (request, reply) => {
    const { name } = bodyOf(request, members)
    return reply.code(201).send(await save(service, request, nameField('name', name)))
  })
  app.get<ByName>('/api/parameter-groups/:name', async (request) =>
    shown(service, await group(service, request.params.name)),
  )
  app.put<ByName>('/api/parameter-groups/:name', async (request) => {
    const { name } = request.params
    const given = bodyOf(request, members).name
    if (given !== undefined && given !== name) throw invalid('name', 'is not that of the path')
    const { saved } = await group(service, name)
    return await save(service, request, name, saved.databaseType)
  })
  app.delete<ByName>('/api/parameter-groups/:name', async (request) => {
    const { name } = request.params
    const by = service.actorOf(request)
    await decide(service.bus, {
      ...groupPlace(name),
      aggregate: parameterGroup,
      actor: by,
      decide: (state) =>
        decideDeleteGroup(state, { name, by, at: service.now(), attachedTo: namesOf(attachedTo(service, name)) }),
    })
    await listed(service, name, (known) => known === undefined)
    return { status: 'deleted' }
  })
}

/** @throws {Rejected} `provisioning/parameter-group-not-found`; {BusUnavailable} */
export async function group({ bus }: ProvisioningService, name: string): Promise<SavedGroup> {
  return requireGroup((await load(bus, parameterGroup, groupPlace(name))).state, name)
}

async function save(
  service: ProvisioningService,
  request: FastifyRequest,
  name: string,
  replaced?: string,
): Promise<object> {
  const { description = '', databaseType = replaced ?? 'POSTGRESQL', parameters } = bodyOf(request, members)
  // Instances of the type it has may use it.
  if (replaced !== undefined && databaseType !== replaced) throw invalid('databaseType', `stays ${replaced}`)
  const by = service.actorOf(request)
  const saved = {
    name,
    description: textField('description', description, { min: 0, max: 1_000 }),
    databaseType: choiceField('databaseType', databaseType, databaseTypes),
    parameters: textsField('parameters', parameters ?? {}, parameterLimits),
    ...(request.headers['idempotency-key'] !== undefined && { key: operationIdOf(request, name) }),
    by,
    at: service.now(),
  }
  if (replaced === undefined && service.groups.size >= maxGroups) {
    throw new Rejected('provisioning/quota', `There are ${maxGroups} parameter groups, and there may be no more`)
  }
  await requireParameters(service, { ...saved, version: null })
  const { state } = await decide(service.bus, {
    ...groupPlace(name),
    aggregate: parameterGroup,
    actor: by,
    decide: (before) => decideSaveGroup(before, saved, replaced !== undefined),
  })
  const found = requireGroup(state, name)
  await listed(service, name, (known) => known !== undefined && known.version >= found.version)
  return shown(service, found)
}

/** Whoever has written finds it in the list; not waited for long. */
async function listed(
  { groups }: ProvisioningService,
  name: string,
  holds: (known: SavedGroup | undefined) => boolean,
): Promise<void> {
  for (let tries = 0; tries < 100 && !holds(groups.get(name)); tries++) await sleep(10)
}

function attachedTo({ instances }: ProvisioningService, name: string): readonly Instance[] {
  return instances
    .all()
    .map(([, state]) => state)
    .filter((state) => state.stage === 'wanted')
    .filter((found) => found.parameterGroup === name)
}

function namesOf(instances: readonly Instance[]): readonly string[] {
  return instances.map(({ projectName }) => projectName)
}

function shown(service: ProvisioningService, { saved, version, createdAt, updatedAt }: SavedGroup): object {
  const { name, description, databaseType, parameters } = saved
  const attached = attachedTo(service, name)
  return {
    name,
    description,
    databaseType,
    parameters,
    parametersJson: JSON.stringify(parameters),
    version,
    attachedTo: namesOf(attached),
    pendingFor: namesOf(attached.filter(({ followed }) => followed?.version !== version)),
    createdAt: time(createdAt),
    updatedAt: time(updatedAt),
  }
}

/** Every group there is, kept up to date. @throws {BusUnavailable} when it cannot begin */
export async function openGroups(bus: Bus, onObservation: (observation: FollowObservation) => void) {
  const groups = new Map<string, SavedGroup>()
  const follower = await follow(bus, {
    stream: 'EVT_PROVISIONING',
    subject: 'evt.provisioning.parameter-group',
    aggregate: parameterGroup,
    onState(name: string, state: GroupState) {
      if (state.stage === 'saved') groups.set(name, state)
      else groups.delete(name)
    },
    onObservation,
  })
  return { groups: groups as ReadonlyMap<string, SavedGroup>, close: () => follower.close() }
}
