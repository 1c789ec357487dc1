import { resolve } from 'node:path'
import { Command, CommanderError, Option } from 'commander'
import { listCatalog, shownCatalog } from './catalog.ts'
import { configReference } from './config-reference.ts'
import { deadCommands } from './dead-commands.ts'
import { doctor } from './doctor.ts'
import { tailEvents } from './events-tail.ts'
import { describe } from './explain.ts'
import { listKeys, rotateKeys, shownKeys } from './keys.ts'
import { testPlugins } from './plugin-test.ts'
import { findRole, roles } from './roles.ts'
import { runRoles } from './run.ts'
import { newKey } from './secret-keys.ts'
import { dataFolder, readSettings, splitArguments } from './settings.ts'
import { shownConfig } from './show-config.ts'
import { runTests } from './test.ts'
import { up } from './up.ts'
import { auditCommands, userCommands } from './users-commands.ts'
import { verify } from './verify.ts'

const { keys, file, rest } = splitArguments(process.argv.slice(2))

const program = new Command('busbar')
  .description(
    'A whole backend on your database: APIs, change streams, functions, provisioning and workflows on one bus.',
  )
  .option('--config=<file>', 'configuration file (default: application.yml in the current folder)')
  .option('--<key>=<value>', 'any key of the configuration reference, schemas/CONFIG.md')
  .showSuggestionAfterError()
  .showHelpAfterError('(busbar --help shows what there is)')
  .exitOverride()

const settings = () => readSettings(keys, file)

function examples(command: Command, lines: readonly string[]): Command {
  return command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}`)
}

examples(
  program
    .command('up')
    .description('run everything on this machine: nats-server, PostgreSQL with a sample database, and all roles')
    .option('--servers-only', 'nats-server and PostgreSQL only, without roles', false)
    .option('--with-mysql', 'besides a MariaDB with a sample database, served on a port of its own', false)
    .action(async (options: { serversOnly: boolean; withMysql: boolean }) => {
      const loaded = settings()
      await up(loaded, dataFolder(loaded.values), options)
    }),
  [
    'busbar up',
    'busbar up --gateway.rest.port=8000 --busbar.data=/srv/busbar',
    'busbar up --spring.datasource.url=jdbc:postgresql://localhost:5432/mydb --spring.datasource.username=me',
  ],
)

examples(
  program
    .command('run')
    .description(`run roles in this process: ${roles.map((role) => role.name).join(', ')}`)
    .argument('<role...>', 'one or more roles')
    .action(async (names: string[]) => runRoles(names.map(findRole), settings().values)),
  [
    'busbar run gateway:rest --server.port=8080 --server.host=0.0.0.0',
    'APP_NATS_ENABLED=true busbar run gateway:rest worker:capture',
  ],
)

examples(
  program
    .command('config')
    .description('show the effective configuration, secrets masked, and where each value came from')
    .option('--json', 'as JSON', false)
    .option('--reference', 'the reference of all keys instead, as Markdown', false)
    .action((options: { json: boolean; reference: boolean }) => {
      process.stdout.write(options.reference ? configReference() : shownConfig(settings(), options))
    }),
  ['busbar config', 'APP_MAX_PAGE_SIZE=500 busbar config --json'],
)

examples(
  program
    .command('catalog')
    .description('list the tables of the GraphQL API with their names there, and every name that could not stay')
    .option('--json', 'as JSON, with the names of columns and relations', false)
    .action(async ({ json }: { json: boolean }) => {
      const listing = await listCatalog(settings().values)
      process.stdout.write(json ? `${JSON.stringify(listing, null, 2)}\n` : shownCatalog(listing))
    }),
  [
    'busbar catalog --spring.datasource.url=jdbc:postgresql://localhost:5432/mydb --spring.datasource.username=me',
    'APP_SCHEMAS=ALL APP_GRAPHQL_NAMING=pascal busbar catalog --json',
  ],
)

examples(
  program
    .command('doctor')
    .description('check this machine and the configured servers, and say what mends each finding')
    .action(async () => {
      const loaded = settings()
      process.exitCode = (await doctor(loaded, dataFolder(loaded.values))) ? 0 : 1
    }),
  [
    'busbar doctor',
    'busbar doctor --spring.datasource.url=jdbc:postgresql://db.example/shop --spring.datasource.username=me',
  ],
)

examples(
  program
    .command('events')
    .description('look at the bus')
    .command('tail')
    .description('print events as they come, until Ctrl-C')
    .option('--subject <pattern>', 'subject, with * for one token and > for the rest', 'cdc.>')
    .option('--from <point>', 'from the stream: `start`, a sequence number, or a time such as 2026-01-31T12:00:00Z')
    .option('--json', 'one JSON object a line', false)
    .action(async (options: { subject: string; from?: string; json: boolean }) =>
      tailEvents(settings().values, options),
    ),
  [
    'busbar events tail',
    "busbar events tail --subject 'cdc.*.public.film.*' --from start",
    'busbar events tail --json | jq .data',
  ],
)

deadCommands(program, settings)
userCommands(program, settings)
auditCommands(program, settings)

const secretKeys = program.command('keys').description('keys that secrets are sealed with')
examples(
  secretKeys
    .command('list')
    .description('list the keys, the one that seals first, and what lies under each')
    .option('--json', 'as JSON', false)
    .action(async ({ json }: { json: boolean }) => {
      const { values } = settings()
      const listing = await listKeys(values, dataFolder(values))
      process.stdout.write(json ? `${JSON.stringify(listing, null, 2)}\n` : shownKeys(listing))
    }),
  ['busbar keys list', 'busbar keys list --json'],
)
examples(
  secretKeys
    .command('rotate')
    .description(
      'make a new key, seal everything with it, and throw older keys away once nothing needs them; goes on with one that was stopped',
    )
    .action(async () => {
      const { values } = settings()
      await rotateKeys(values, dataFolder(values), { tell: (line) => process.stdout.write(`${line}\n`) })
    }),
  [
    'busbar keys rotate',
    'busbar keys rotate --app.secrets.keys-file=/etc/busbar/secret-keys',
    'APP_SECRETS_KEYS=2026-12:...,2026-06:... busbar keys rotate',
  ],
)
examples(
  secretKeys
    .command('new')
    .description('print a new key, to be put before the others of app.secrets.keys or of its file')
    .action(() => {
      process.stdout.write(`${newKey()}\n`)
    }),
  ['busbar keys new'],
)

const plugin = program.command('plugin').description('workflow plugins of your own')
examples(
  plugin
    .command('new')
    .description('write a plugin and its test, which run as they stand')
    .argument('<id>', '<family>.<name>')
    .option('--folder <folder>', 'where to', 'plugins')
    .action(async (id: string, { folder }: { folder: string }) => {
      const { newPlugin } = await import('./plugin-new.ts')
      const [file, test] = newPlugin(id, folder)
      process.stdout.write(
        `${file}\n${test}\nTest it: busbar plugin test ${folder}\nOffer it: busbar up --app.workflows.plugins=${resolve(folder)}\n`,
      )
    }),
  ['busbar plugin new acme.greet', 'busbar plugin new acme.greet --folder=/srv/busbar-plugins'],
)
examples(
  plugin
    .command('test')
    .description('run the tests of plugins')
    .argument('[place...]', 'files or folders', ['plugins'])
    .action(async (places: string[]) => {
      process.exitCode = (await testPlugins(places)) ? 0 : 1
    }),
  ['busbar plugin test', 'busbar plugin test plugins/acme-greet.test.ts'],
)

const dev = program.command('dev').description('for work on Busbar itself')
examples(
  dev
    .command('test')
    .description('run the tests; ends with one line `N passed, N failed`')
    .argument('[files...]', 'test files (default: all)')
    .addOption(new Option('--jobs <n>', 'test files at a time').default(2).argParser(Number))
    .action(async (files: string[], options: { jobs: number }) => {
      process.exitCode = (await runTests(files, { ...options, folder: dataFolder(settings().values) })) ? 0 : 1
    }),
  ['npm test', 'npm test -- test/config/config.test.ts'],
)
examples(
  dev
    .command('verify')
    .description('format, lint, types, imports, dead code, tests')
    .action(async () => {
      process.exitCode = (await verify(dataFolder(settings().values))) ? 0 : 1
    }),
  ['npm run verify'],
)

try {
  await program.parseAsync(rest, { from: 'user' })
  // Roles and servers have said goodbye; a timer left in a library must not keep the program.
  process.exit()
} catch (error) {
  // Commander has printed its own message already.
  if (error instanceof CommanderError) process.exit(error.exitCode)
  process.stderr.write(`busbar: ${describe(error)}\n`)
  process.exit(1)
}
