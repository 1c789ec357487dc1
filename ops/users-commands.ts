import type { Command } from 'commander'
import type { LoadedConfig } from '../schemas/config/load.ts'
import { dataFolder } from './settings.ts'
import type { UserAdmin } from './users.ts'

type Users = typeof import('./users.ts')

/** `busbar users …` */
export function userCommands(program: Command, settings: () => LoadedConfig): void {
  const users = program
    .command('users')
    .description('users of the workflow engine; passwords are asked for, never written')
  const run = async (work: (admin: UserAdmin, of: Users) => Promise<string>) => {
    // Only here: hashing and signing take their time to load.
    const of = await import('./users.ts')
    const { values } = settings()
    process.stdout.write(await of.asUserAdmin(values, dataFolder(values), (admin) => work(admin, of)))
  }
  users
    .command('add')
    .description('make a user; the password comes from the terminal, standard input or BUSBAR_PASSWORD')
    .argument('<username>')
    .option('--role <role>', 'viewer, executor, editor or admin', 'viewer')
    .action((username: string, { role }: { role: string }) =>
      run(async (admin, { addUser }) => {
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
      run(async (admin, { listUsers, listedUsers, shownUsers }) => {
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
      run(async (admin, { changeUserRole }) => {
        await changeUserRole(admin, username, role)
        return `${username} is ${role}.\n`
      }),
    )
  const byName: readonly [string, string, string, (of: Users, admin: UserAdmin, username: string) => Promise<void>][] =
    [
      [
        'password',
        'another password; all sessions end',
        'has another password',
        (of, ...told) => of.changeUserPassword(...told),
      ],
      ['disable', 'all sessions end, and none begins', 'is disabled', (of, ...told) => of.enableUser(...told, false)],
      ['enable', 'may sign in again', 'is enabled', (of, ...told) => of.enableUser(...told, true)],
      ['sign-out', 'all sessions end', 'is signed out', (of, ...told) => of.signOutUser(...told)],
      ['delete', 'the name is free again', 'is deleted', (of, ...told) => of.deleteUser(...told)],
    ]
  for (const [name, description, told, work] of byName) {
    users
      .command(name)
      .description(description)
      .argument('<username>')
      .action((username: string) =>
        run(async (admin, of) => {
          await work(of, admin, username)
          return `${username} ${told}.\n`
        }),
      )
  }
  users
    .command('rotate-signing-key')
    .description('sign tokens with a new key, on all gateways; it happens by itself every 30 days')
    .option('--revoke', 'tokens of the keys before end at once (sessions go on with their next refresh)', false)
    .action(({ revoke }: { revoke: boolean }) =>
      run(async (admin, { rotateSigningKey }) => {
        await rotateSigningKey(admin, revoke)
        return 'Tokens are signed with a new key.\n'
      }),
    )
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
