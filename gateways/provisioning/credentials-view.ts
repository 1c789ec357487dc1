import { decide } from '../../bus/decide.ts'
import { eventSubject } from '../../bus/subject.ts'
import { Rejected } from '../../schemas/failure.ts'
import { access, decideRead } from '../../schemas/provisioning/access.ts'
import type { Instance } from '../../schemas/provisioning/instance.ts'
import { time } from './instance-view.ts'
import type { ProvisioningService } from './service.ts'

const host = '127.0.0.1'
const schemes = { POSTGRESQL: 'postgresql', MYSQL: 'mysql', MONGODB: 'mongodb' } as const

/** Connection details in the clear. @throws {Rejected} `provisioning/invalid-state` before there are any */
export function shownCredentials(service: ProvisioningService, found: Instance): object {
  const {
    created,
    credentials,
    members,
    primary,
    projectName: projectId,
    databaseName,
    masterUsername,
    databaseType,
  } = found
  const port = members.find(({ name }) => name === primary)?.port
  if (!created || credentials === null || port === undefined) {
    throw new Rejected('provisioning/invalid-state', `${projectId} has no credentials yet`, {
      hint: 'Wait until its status is ACTIVE.',
    })
  }
  const password = service.open(credentials.master, `provisioning/${found.uid}/master/`)
  const replica = members.find(({ name }) => name !== primary)
  const scheme = schemes[databaseType]
  const login = `${encodeURIComponent(masterUsername)}:${encodeURIComponent(password)}`
  const options = databaseType === 'POSTGRESQL' ? '?sslmode=disable' : ''
  const url = (at: number) => `${scheme}://${login}@${host}:${at}/${encodeURIComponent(databaseName)}${options}`
  return {
    projectId,
    host,
    readOnlyHost: replica === undefined ? null : host,
    port,
    readOnlyPort: replica?.port ?? null,
    databaseName,
    username: masterUsername,
    password,
    sslMode: 'disable',
    connectionUrl: url(port),
    readOnlyConnectionUrl: replica === undefined ? null : url(replica.port),
    jdbcUrl: `jdbc:${scheme}://${host}:${port}/${databaseName}${options}`,
    version: credentials.version,
    rotatedAt: time(credentials.at),
  }
}

/** Written down before the password is told. @throws {BusUnavailable} */
export async function recordRead({ bus, now }: ProvisioningService, found: Instance, by: string): Promise<void> {
  await decide(bus, {
    stream: 'EVT_PROVISIONING',
    subject: eventSubject('provisioning', 'access', found.projectName),
    aggregate: access,
    actor: by,
    decide: (state) => decideRead(state, { uid: found.uid, version: found.credentials?.version ?? 0, by, at: now() }),
  })
}
