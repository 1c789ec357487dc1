import { type Command, InvalidArgumentError } from 'commander'
import type { LoadedConfig } from '../schemas/config/load.ts'
import type { DeadListing } from './dead.ts'

const maxListed = 1_000

/** `busbar dead …` */
export function deadCommands(program: Command, settings: () => LoadedConfig): void {
  const dead = program.command('dead').description('messages that no consumer could handle')
  const examples = (command: Command, ...lines: readonly string[]) =>
    command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  $ busbar dead ${line}`).join('\n')}`)
  const run = async (work: (module: typeof import('./dead.ts'), bus: Bus) => Promise<string>) => {
    const module = await import('./dead.ts')
    process.stdout.write(await module.onBus(settings().values, (bus) => work(module, bus)))
  }
  examples(
    dead
      .command('list')
      .description('a line each, oldest first: its number, when, who gave up on it, its subject, and why')
      .option('--consumer <name>', 'only what this one gave up on')
      .option('--from <number>', 'from this number on', numberOf, 1)
      .option('--limit <n>', `how many at most, up to ${maxListed}`, limitOf, 100)
      .option('--json', 'as JSON', false)
      .action(({ json, ...listing }: DeadListing & { readonly json: boolean }) =>
        run((module, bus) => (json ? module.listedDeadJson : module.listedDead)(bus, listing)),
      ),
    'list',
    'list --consumer projections-workflows --json',
  )
  examples(
    dead
      .command('show')
      .description('one with its headers and its body, as JSON')
      .argument('<number>', 'as the list has it', numberOf)
      .action((sequence: number) => run((module, bus) => module.shownDead(bus, sequence))),
    'show 7',
  )
  for (const [verb, description] of [
    ['retry', 'put them back on their queues, to be handled again; facts that a stream keeps are refused'],
    ['drop', 'forget them'],
  ] as const) {
    examples(
      dead
        .command(verb)
        .description(description)
        .argument('<number...>', 'as the list has them', (value, before: readonly number[] = []) => [
          ...before,
          numberOf(value),
        ])
        .action((sequences: readonly number[]) => run((module, bus) => module.treatDead(bus, verb, sequences))),
      `${verb} 7`,
      `${verb} 7 8 9`,
    )
  }
}

type Bus = Parameters<typeof import('./dead.ts').listedDead>[0]

function numberOf(value: string): number {
  if (/^[1-9]\d{0,14}$/.test(value)) return Number(value)
  throw new InvalidArgumentError('It must be a whole number from 1 on.')
}

function limitOf(value: string): number {
  const limit = numberOf(value)
  if (limit <= maxListed) return limit
  throw new InvalidArgumentError(`It must be at most ${maxListed}.`)
}
