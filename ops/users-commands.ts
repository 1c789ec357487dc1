import type { Command } from 'commander'
import type { LoadedConfig } from '../schemas/config/load.ts'
import { dataFolder } from './settings.ts'
import type { UserAdmin } from './users.ts'

/** `busbar users …` */
export function userCommands(program: Command, settings: () => LoadedConfig): void {
  const users = program
    .command('users')
    .description('users of the workflow engine; passwords are asked for, never written')
  // Loaded only when it is asked for: hashing and signing take their time.
  const run = async (work: (admin: UserAdmin) => Promise<string>) => {
    const { asUserAdmin } = await import('./users.ts')
    const { values } = settings()
    process.stdout.write(await asUserAdmin(values, dataFolder(values), work))
  }
  users
    .command('add')
    .description('make a user; the password comes from the terminal, standard input or BUSBAR_PASSWORD')
    .argument('<username>')
    .option('--role <role>', 'viewer, executor, editor or admin', 'viewer')
    .action((username: string, { role }: { role: string }) =>
      run(async (admin) => {
        const { addUser } = await import('./users.ts')
        await addUser(admin, username, role)
        return `${username} is ${role}.\n`
      }),
    )
    .addHelpText(
      'after',
      '\nExamples:\n  $ busbar users add ann --role admin\n  $ pass show busbar | busbar users add ann --role admin',
    )
  users
    .command('list')
    .description('all users, newest first')
    .option('--json', 'as JSON', false)
    .action(({ json }: { json: boolean }) =>
      run(async (admin) => {
        const { listUsers, listedUsers, shownUsers } = await import('./users.ts')
        const found = await listUsers(admin)
        return json ? `${JSON.stringify(listedUsers(found), null, 2)}\n` : shownUsers(found)
      }),
    )
  users
    .command('role')
    .description('another role, from the next request on')
    .argument('<username>')
    .argument('<role>', 'viewer, executor, editor or admin')
    .action((username: string, role: string) =>
      run(async (admin) => {
        const { changeUserRole } = await import('./users.ts')
        await changeUserRole(admin, username, role)
        return `${username} is ${role}.\n`
      }),
    )
  const byName: readonly [string, string, string, (admin: UserAdmin, username: string) => Promise<void>][] = [
    ['password', 'another password; all sessions end', 'has another password', changePassword],
    ['disable', 'all sessions end, and none begins', 'is disabled', (...told) => enable(...told, false)],
    ['enable', 'may sign in again', 'is enabled', (...told) => enable(...told, true)],
    ['sign-out', 'all sessions end', 'is signed out', signOut],
    ['delete', 'the name is free again', 'is deleted', remove],
  ]
  for (const [name, description, told, work] of byName) {
    users
      .command(name)
      .description(description)
      .argument('<username>')
      .action((username: string) =>
        run(async (admin) => {
          await work(admin, username)
          return `${username} ${told}.\n`
        }),
      )
  }
  users
    .command('rotate-signing-key')
    .description('sign tokens with a new key, on all gateways; it happens by itself every 30 days')
    .option('--revoke', 'tokens of the keys before end at once (sessions go on with their next refresh)', false)
    .action(({ revoke }: { revoke: boolean }) =>
      run(async (admin) => {
        const { rotateSigningKey } = await import('./users.ts')
        await rotateSigningKey(admin, revoke)
        return 'Tokens are signed with a new key.\n'
      }),
    )
}

async function changePassword(admin: UserAdmin, username: string): Promise<void> {
  const { changeUserPassword } = await import('./users.ts')
  await changeUserPassword(admin, username)
}

async function enable(admin: UserAdmin, username: string, enabled: boolean): Promise<void> {
  const { enableUser } = await import('./users.ts')
  await enableUser(admin, username, enabled)
}

async function signOut(admin: UserAdmin, username: string): Promise<void> {
  const { signOutUser } = await import('./users.ts')
  await signOutUser(admin, username)
}

async function remove(admin: UserAdmin, username: string): Promise<void> {
  const { deleteUser } = await import('./users.ts')
  await deleteUser(admin, username)
}

/** `busbar audit …` */
export function auditCommands(program: Command, settings: () => LoadedConfig): void {
  program
    .command('audit')
    .description('the audit log of the workflow engine')
    .command('verify')
    .description(
      'walk the chain of hashes from the first entry to the last, and name the first place that is not what it was',
    )
    .option('--head <number:hash>', 'an entry that must be there: the head of an earlier run, noted elsewhere')
    .action(async ({ head }: { head?: string }) => {
      const { shownReport, verifyAuditLog } = await import('./audit.ts')
      const report = await verifyAuditLog(settings().values, head)
      process.stdout.write(shownReport(report))
      process.exitCode = report.broken === null ? 0 : 1
    })
}
