import { randomUUID } from 'node:crypto'
import t from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { decideProvision, type Instance, instance } from '../../schemas/provisioning/instance.ts'
import { facts, type InstanceFact } from '../../schemas/provisioning/instance-facts.ts'
import type { SavedGroup } from '../../schemas/provisioning/parameter-group.ts'
import type { Driver } from '../../workers/provisioning/driver.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { scheduler } from '../../workers/provisioning/schedule.ts'
import { testNats } from '../support/servers.ts'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour
/** A Sunday, 00:30 UTC. */
const createdAt = Date.UTC(2026, 10, 1, 0, 30)

/** What the clock is asked to look at. */
interface World {
  readonly lastBackupAt?: number
  readonly untested?: string
  readonly versions?: readonly string[]
  /** What the group `fast` says, in its version 2. */
  readonly group?: Readonly<Record<string, string>>
}

const window = { window: '0 3 * * *', durationMinutes: 60, autoMinorVersionUpgrade: true }
const backup = { enabled: true, schedule: '0 2 * * *', retention: 7 }
const settings = (own: Omit<Parameters<typeof facts.settings.of>[0], 'by' | 'at'>) =>
  facts.settings.of({ ...own, by: 'me', at: createdAt })

/** It names work_mem itself, and has jit from its group. */
const inGroup = settings({
  parameterGroup: 'fast',
  parameters: { work_mem: '9MB', jit: 'on' },
  followed: { version: 1, parameters: { work_mem: '1MB', jit: 'on' } },
})

function savedGroup(parameters: Readonly<Record<string, string>>): SavedGroup {
  const own = { name: 'fast', by: 'me', at: createdAt, description: '', databaseType: 'POSTGRESQL' }
  return { stage: 'saved', saved: { ...own, parameters }, version: 2, createdAt, updatedAt: createdAt }
}

const table: readonly (readonly [title: string, own: readonly InstanceFact[], World, after: number, begun: string])[] = [
  ['before the first tick there is nothing', [], {}, hour, 'CREATE'],
  ['a backup is due by its schedule', [], {}, 2 * hour, 'BACKUP SCHEDULED'],
  ['one that was made since is not due again', [], { lastBackupAt: createdAt + 2 * hour }, 3 * hour, 'CREATE'],
  ['of many that were missed one is made', [], { lastBackupAt: createdAt }, 20 * day, 'BACKUP SCHEDULED'],
  ['without backups none', [settings({ backup: { ...backup, enabled: false } })], { untested: 'b1' }, 9 * day, 'CREATE'],
  ['a backup nobody has tried is tried', [], { lastBackupAt: createdAt + 9 * day, untested: 'b1' }, 9 * day, 'VERIFY_BACKUP b1'],
  ['within the window the newer minor version', [settings({ maintenance: window, backup: { ...backup, enabled: false } })], { versions: ['18.1', '17.9', '17.4'] }, 3 * hour, 'UPGRADE 17.9'],
  ['not when the window is over', [settings({ maintenance: window, backup: { ...backup, enabled: false } })], { versions: ['17.9'] }, 4 * hour, 'CREATE'],
  ['nor without leave', [settings({ maintenance: { ...window, autoMinorVersionUpgrade: false }, backup: { ...backup, enabled: false } })], { versions: ['17.9'] }, 3 * hour, 'CREATE'],
  ['nor when it runs already', [settings({ maintenance: window, backup: { ...backup, enabled: false } })], { versions: ['17.4'] }, 3 * hour, 'CREATE'],
  ['what waits for a restart gets one', [settings({ maintenance: window, backup: { ...backup, enabled: false }, pendingRestart: ['max_connections'] })], {}, 3 * hour, 'RESTART'],
  ['what its group says, but for what it names itself', [inGroup], { group: { work_mem: '2MB', jit: 'off' } }, hour, 'PARAMETERS {"jit":"off"}'],
  ['what its group says no longer', [inGroup], { group: {} }, hour, 'PARAMETERS {"jit":null}'],
  ['not what it follows already', [inGroup, settings({ followed: { version: 2, parameters: {} } })], { group: { jit: 'off' } }, hour, 'CREATE'],
  ['nothing while a backup is due', [inGroup], { group: {} }, 2 * hour, 'BACKUP SCHEDULED'],
] // biome-ignore format: a table

t.test('what is due by the clock begins once', async (t) => {
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test' })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  for (const [index, [title, own, world, after, begun]] of table.entries()) {
    const projectName = `shop-${index}`
    const place = { ...instancePlace(projectName), aggregate: instance, actor: 'test' }
    await decide(bus, { ...place, decide: (state) => [...madeFacts(state, projectName), ...own] })
    const driver = {
      lastBackupAt: async () => world.lastBackupAt ?? null,
      untestedBackup: async () => world.untested ?? null,
      engines: async () => [
        { databaseType: 'POSTGRESQL', installed: true, versions: world.versions ?? [], advice: null },
      ],
    } as Partial<Driver> as Driver
    const found = async () => (await load(bus, instance, instancePlace(projectName))).state as Instance
    // Two workers that think they look after it, and one of them twice.
    const groupOf = (name: string) => (name === 'fast' && world.group ? savedGroup(world.group) : undefined)
    const first = scheduler({ bus, driver, groupOf })
    const before = await found()
    for (const each of [first, scheduler({ bus, driver, groupOf }), first]) await each(before, createdAt + after)
    const { operation, earlier } = await found()
    const { version = '', type = '', backupId = '', parameters } = operation.request as Record<string, string>
    const told = [operation.type, version, type, backupId, JSON.stringify(parameters)]
    t.equal(told.filter(Boolean).join(' '), begun, title)
    t.equal(earlier.length, begun === 'CREATE' ? 0 : 1)
  }
})

t.test('what fails does not hold up the rest', async (t) => {
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test' })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  const place = { ...instancePlace('shop'), aggregate: instance, actor: 'test' }
  await decide(bus, { ...place, decide: (state) => [...madeFacts(state, 'shop'), settings({ maintenance: window })] })
  const driver = {
    lastBackupAt: async () => null,
    untestedBackup: async () => null,
    engines: async () => [{ databaseType: 'POSTGRESQL', installed: true, versions: ['17.9'], advice: null }],
  } as Partial<Driver> as Driver
  const found = async () => (await load(bus, instance, instancePlace('shop'))).state as Instance
  const due = scheduler({ bus, driver, groupOf: () => undefined })
  for (const type of ['BACKUP', 'UPGRADE']) {
    await due(await found(), createdAt + 3 * hour)
    const { operation } = await found()
    t.equal(operation.type, type)
    const failed = { operationId: operation.id, error: { code: 'x', message: 'no' }, at: createdAt }
    await decide(bus, { ...place, decide: () => [facts.failed.of(failed)] })
  }
})

function madeFacts(state: Parameters<typeof decideProvision>[0], projectName: string): readonly InstanceFact[] {
  const wanted = {
    uid: randomUUID(),
    projectName,
    orgId: 'acme',
    namespace: `acme-${projectName}`,
    databaseType: 'POSTGRESQL',
    tier: 'FREE',
    version: null,
    databaseName: 'app',
    masterUsername: 'app',
    parameters: {},
    parameterGroup: null,
    tags: {},
    backup,
    storageBytes: 1024 ** 3,
    source: null,
    by: 'me',
    at: createdAt,
  } as const
  return [
    ...decideProvision(state, wanted, { operationId: 'made', type: 'CREATE' }),
    facts.members.of({ members: [{ name: 'm1', port: 1, version: '17.4' }], primary: 'm1', at: createdAt }),
    facts.succeeded.of({ operationId: 'made', result: {}, at: createdAt }),
  ]
}
