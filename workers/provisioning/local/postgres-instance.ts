import { join } from 'node:path'
import { Unavailable } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import type { Member } from '../../../schemas/provisioning/instance-facts.ts'
import { type InstanceFolders, instanceFolders } from './folders.ts'
import { type MemberControl, memberControl } from './node-control.ts'
import { chooseInstallation, type LocalPlace } from './place.ts'
import type { PostgresNode } from './postgres-node.ts'
import { superuser } from './postgres-settings.ts'

/** An instance with PostgreSQL servers, as the steps of its operations see it. */
export interface PostgresInstance {
  readonly folders: InstanceFolders
  readonly control: MemberControl
  /** Its `binFolder` @throws {Rejected} `provisioning/engine-missing` when its program is gone */
  nodeOf(member: Member): PostgresNode
  /** @throws {Unavailable} when it has none at the moment */
  primary(): PostgresNode
  readonly standbys: readonly Member[]
  /** In the clear. */
  password(which: 'master' | 'superuser' | 'pending'): string
}

/** What an envelope with a password is sealed for; the version comes behind it. */
export function passwordContext(uid: string, which: 'master' | 'superuser'): string {
  return `provisioning/${uid}/${which}/`
}

export async function openPostgres(place: LocalPlace, instance: Instance): Promise<PostgresInstance> {
  const installations = await place.postgres()
  // All servers of an instance are of one major version.
  const folders = instanceFolders(place.home, instance.uid, majorOf(instance.members[0]?.version ?? '0'))
  const password = (which: 'master' | 'superuser' | 'pending') => {
    const envelope = instance.credentials?.[which]
    if (envelope == null) throw new Error(`The instance has no password of the kind ${which}`)
    return place.keys.open(envelope, passwordContext(instance.uid, which === 'superuser' ? 'superuser' : 'master'))
  }
  const nodeOf = ({ name, port, version }: Member): PostgresNode => ({
    // Looked for when it is wanted: what is stopped or removed needs no program. A newer minor of the same major does as well: the one
    // it had may have been replaced.
    get binFolder() {
      const own = installations.find((each) => each.version === version)
      return (own ?? chooseInstallation(installations, majorOf(version))).binFolder
    },
    dataFolder: join(folders.members, name, 'data'),
    port,
    logFile: join(folders.members, name, 'log', 'server.log'),
    superuser: { user: superuser, password: password('superuser') },
    database: instance.databaseName,
    archiveFolder: folders.archive,
    ...(place.account !== undefined && { runAs: place.account }),
  })
  return {
    folders,
    control: memberControl(place.supervisor, { uid: instance.uid, folders }),
    nodeOf,
    primary() {
      const found = instance.members.find(({ name }) => name === instance.primary)
      if (found === undefined) throw new Unavailable('http/unavailable', 'The instance has no primary at the moment')
      return nodeOf(found)
    },
    standbys: instance.members.filter(({ name }) => name !== instance.primary),
    password,
  }
}

/** `18` of `18.4`. */
export function majorOf(version: string): string {
  return version.split('.')[0]!
}
