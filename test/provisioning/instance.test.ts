import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { Rejected } from '../../schemas/failure.ts'
import { access, decideRead } from '../../schemas/provisioning/access.ts'
import { alerts, decideAlerts } from '../../schemas/provisioning/alerts.ts'
import {
  decideOnOperation,
  decideOperation,
  decideProvision,
  decideSettings,
  findOperation,
  type InstanceState,
  instance,
} from '../../schemas/provisioning/instance.ts'
import { facts, type InstanceFact, operationTypes, type Requested } from '../../schemas/provisioning/instance-facts.ts'
import { databaseNameMistake, namespaceOf, userNameMistake } from '../../schemas/provisioning/names.ts'
import { decideClaim, decideRelease, namespace } from '../../schemas/provisioning/namespace.ts'
import { isOtherRequest, isUnderWay, keyedOperationId } from '../../schemas/provisioning/operation.ts'
import { estimate, sizeBytes, sizeText, tierNames } from '../../schemas/provisioning/tiers.ts'

function wanted(own: Partial<Requested> = {}): Requested {
  return {
    uid: randomUUID(),
    projectName: 'shop',
    orgId: 'acme',
    namespace: 'acme-shop',
    databaseType: 'POSTGRESQL',
    tier: 'FREE',
    version: null,
    databaseName: 'app',
    masterUsername: 'app',
    parameters: {},
    parameterGroup: null,
    tags: {},
    backup: { enabled: false, schedule: '0 0 * * *', retention: 7 },
    storageBytes: 1024 ** 3,
    source: null,
    by: 'me',
    at: 1,
    ...own,
  }
}

/** The facts pass through the schemas, as they would on the bus. */
function after(state: InstanceState, told: readonly InstanceFact[]): InstanceState {
  return told.map((fact) => instance.events.restore(instance.events.store(fact))).reduce(instance.evolve, state)
}

const at = 5
const made = () =>
  after(instance.initial, decideProvision(instance.initial, wanted(), { operationId: 'o1', type: 'CREATE' }))
const ready = () => {
  const state = made()
  return after(
    state,
    decideOnOperation(state, 'o1', () => [facts.succeeded.of({ operationId: 'o1', result: {}, at })]),
  )
}
const begin = (state: InstanceState, type: (typeof operationTypes)[number], id = 'o2') =>
  decideOperation(state, 'shop', { id, type, request: {}, by: 'me', at })

function code(work: () => unknown): string {
  try {
    work()
    return 'granted'
  } catch (error) {
    return error instanceof Rejected ? error.code : `no rejection: ${error}`
  }
}

t.test('what is granted and what is not, by state', async (t) => {
  const protectedOne = after(ready(), decideSettings(ready(), 'shop', { deletionProtection: true }, { by: 'me', at }))
  const deleting = after(ready(), begin(ready(), 'DELETE'))
  const failed = after(made(), [facts.failed.of({ operationId: 'o1', error: { code: 'c', message: 'm' }, at })])
  const gone = after(deleting, [facts.deleted.of({ at })])
  const table: readonly (readonly [string, () => unknown, string])[] = [
    [
      'the same name again',
      () => decideProvision(ready(), wanted(), { operationId: 'x', type: 'CREATE' }),
      'provisioning/exists',
    ],
    [
      'the same request again',
      () => decideProvision(made(), wanted(), { operationId: 'o1', type: 'CREATE' }),
      'granted',
    ],
    [
      'the name of a deleted one',
      () => decideProvision(gone, wanted(), { operationId: 'x', type: 'CREATE' }),
      'granted',
    ],
    ['an operation on nothing', () => begin(instance.initial, 'SCALE'), 'provisioning/not-found'],
    ['an operation on a deleted one', () => begin(gone, 'SCALE', 'x'), 'provisioning/not-found'],
    ['an operation on one in the making', () => begin(made(), 'SCALE'), 'provisioning/operation-in-progress'],
    ['an operation on one that is ready', () => begin(ready(), 'SCALE'), 'granted'],
    ['an operation on one that was never ready', () => begin(failed, 'SCALE'), 'provisioning/invalid-state'],
    ['deletion of one that was never ready', () => begin(failed, 'DELETE'), 'granted'],
    ['deletion of a protected one', () => begin(protectedOne, 'DELETE'), 'provisioning/deletion-protected'],
    [
      'protection of one that is being deleted',
      () => decideSettings(deleting, 'shop', { deletionProtection: true }, { by: 'me', at }),
      'provisioning/operation-in-progress',
    ],
    [
      'a second operation',
      () => begin(after(ready(), begin(ready(), 'SCALE')), 'BACKUP', 'o3'),
      'provisioning/operation-in-progress',
    ],
  ]
  for (const [title, decide, outcome] of table) t.equal(code(decide), outcome, title)
  t.strictSame(begin(after(ready(), begin(ready(), 'SCALE')), 'SCALE'), [], 'the same operation is begun once')
  t.strictSame(
    decideSettings(protectedOne, 'shop', { deletionProtection: true }, { by: 'me', at }),
    [],
    'what is so already is no change',
  )
  t.strictSame(
    decideOnOperation(ready(), 'o1', () => [facts.deleted.of({ at })]),
    [],
    'what has ended is not gone on with',
  )
})

t.test(
  'whatever is asked for in whatever order, one operation runs and nothing is lost of those that ended',
  async (t) => {
    const steps = fc.array(
      fc.oneof(
        fc.record({ kind: fc.constant('begin' as const), type: fc.constantFrom(...operationTypes) }),
        fc.record({ kind: fc.constantFrom('succeed' as const, 'fail' as const, 'undo' as const, 'protect' as const) }),
      ),
      { maxLength: 40 },
    )
    const property = fc.property(steps, (all) => {
      let state: InstanceState = ready()
      let last = 0
      for (const step of all) {
        if (state.stage !== 'wanted') break
        const { id } = state.operation
        const busy = isUnderWay(state.operation)
        const isProtected = state.deletionProtection
        if (step.kind === 'begin') {
          const type = (step as { readonly type: (typeof operationTypes)[number] }).type
          const next = `n${++last}`
          const before = state
          const outcome = code(() => {
            state = after(before, begin(before, type, next))
          })
          if ((outcome === 'granted') !== !(busy || (type === 'DELETE' && isProtected)))
            throw new Error(`${type}: ${outcome}`)
        } else if (step.kind === 'protect') {
          code(() => {
            state = after(state, decideSettings(state, 'shop', { deletionProtection: !isProtected }, { by: 'me', at }))
          })
        } else {
          const error = { code: 'c', message: 'm' }
          const fact = {
            succeed: facts.succeeded.of({ operationId: id, result: { id }, at }),
            fail: facts.failed.of({ operationId: id, error, at }),
            undo: facts.undoing.of({ operationId: id, error, at }),
          }[step.kind as 'succeed' | 'fail' | 'undo']
          state = after(
            state,
            decideOnOperation(state, id, () => [fact]),
          )
          const found = findOperation(state, id)
          if (found === null) throw new Error(`${id} is forgotten`)
        }
      }
    })
    t.doesNotThrow(() => fc.assert(property))
  },
)

t.test('a namespace belongs to one instance, however its names are cut', async (t) => {
  const owner = { projectName: 'c', uid: 'u1', namespace: 'a-b-c' }
  t.equal(namespaceOf('a-b', 'c'), namespaceOf('a', 'b-c'))
  t.equal(namespaceOf('a'.repeat(40), 'b'.repeat(40)), null)
  const claimed = decideClaim({ owner: null }, owner).reduce(namespace.evolve, namespace.initial)
  t.equal(
    code(() => decideClaim(claimed, { projectName: 'b-c', uid: 'u2', namespace: 'a-b-c' })),
    'provisioning/namespace-taken',
  )
  t.equal(
    code(() => decideClaim(claimed, { ...owner, uid: 'u2' })),
    'provisioning/exists',
  )
  t.strictSame(decideClaim(claimed, owner), [])
  t.strictSame(decideRelease(claimed, 'u2'), [], 'only its owner gives it back')
  t.strictSame(decideRelease(claimed, 'u1').reduce(namespace.evolve, claimed), { owner: null })
})

t.test('sizes, prices and names', async (t) => {
  for (const [text, bytes] of [
    ['10Gi', 10 * 1024 ** 3],
    ['500M', 5e8],
    ['1.5Gi', 1.5 * 1024 ** 3],
    ['1073741824', 1024 ** 3],
    ['0', null],
    ['-1Gi', null],
    ['1Pi', null],
    ['1e3', null],
    ['', null],
    ['99999Ti', null],
  ] as const) {
    t.equal(sizeBytes(text), bytes, text)
  }
  fc.assert(fc.property(fc.integer({ min: 1, max: 2 ** 45 }), (bytes) => sizeBytes(sizeText(bytes)) === bytes))
  for (const tier of tierNames) {
    const { monthlyCostUsd, breakdown } = estimate(tier)
    const { compute, storage, backup } = breakdown
    t.equal(
      Math.round((compute + storage + backup) * 100),
      Math.round(monthlyCostUsd * 100),
      `${tier}: the parts are the whole`,
    )
  }
  for (const name of ['postgres', 'pg_x', 'busbar_admin', 'a b', "x'; drop", '1a', '', 'A', 'ü', 'a'.repeat(64)]) {
    t.ok(userNameMistake(name), name)
    t.ok(databaseNameMistake(name), name)
  }
  t.equal(userNameMistake('boss'), null)
})

t.test('an alert begins once and ends once', async (t) => {
  const alert = {
    id: 'cpu-shop-1',
    projectId: 'shop',
    rule: 'cpu',
    severity: 'WARNING',
    message: 'm',
    metric: 'cpuUsagePercent',
    value: 95,
    threshold: 90,
    timestamp: '2026-01-01T00:00:00Z',
    resolved: false,
    resolvedAt: null,
  } as const
  const ended = { ...alert, resolved: true, resolvedAt: '2026-01-01T00:01:00Z' }
  const fired = decideAlerts(alerts.initial, [alert]).reduce(alerts.evolve, alerts.initial)
  t.strictSame(decideAlerts(fired, [alert]), [])
  const resolved = decideAlerts(fired, [ended]).reduce(alerts.evolve, fired)
  t.strictSame([resolved.active.length, resolved.history.length], [0, 1])
  t.strictSame(decideAlerts(resolved, [alert, ended]), [], 'what is over does not begin again')
})

t.test('who was shown a password is written down, the same one once a minute', async (t) => {
  const read = { uid: 'u', version: 1, by: 'me', at: 1_000_000 }
  const after = decideRead(access.initial, read).reduce(access.evolve, access.initial)
  t.strictSame(after, { last: read })
  t.strictSame(decideRead(after, { ...read, at: read.at + 59_000 }), [])
  for (const other of [{ at: read.at + 60_000 }, { by: 'you' }, { version: 2 }, { uid: 'v' }]) {
    t.equal(decideRead(after, { ...read, ...other }).length, 1, JSON.stringify(other))
  }
})

t.test('a key stands for one request', async (t) => {
  const [first, other, next] = [keyedOperationId('a', '1'), keyedOperationId('a', '2'), keyedOperationId('b', '1')]
  t.notOk(isOtherRequest(first, first))
  t.ok(isOtherRequest(first, other))
  t.notOk(isOtherRequest(first, next))
  for (const plain of ['backup-1-u', 'upgrade-18.4-1-u', 'upgrade-18.5-1-u'])
    t.notOk(isOtherRequest(plain, 'upgrade-18.4-2-u'))
})
