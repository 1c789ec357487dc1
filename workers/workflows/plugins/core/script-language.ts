import { findProgram } from './script-account.ts'

export interface ScriptLanguage {
  /** How a failure names it. */
  readonly name: string
  /** Name of the script's file. */
  readonly file: string
  /** Of the program that runs it; null when this account may run none. */
  readonly program: (account: number | null) => string | null
  /** What comes between the program and the script. */
  readonly flags: (folder: string, memoryMb: number) => readonly string[]
  readonly memoryOf: 'addresses' | 'data'
  /** What it takes to begin with. */
  readonly baseMemoryMb: number
  readonly inContainer: ContainerLanguage
}

/** How it is run where its program is part of an image. */
export interface ContainerLanguage {
  /** Unless the task names one. */
  readonly image: string
  readonly command: readonly string[]
  /** What comes before a script that is an argument, and after it. */
  readonly inline: readonly [readonly string[], readonly string[]]
}

/** A language whose program is looked for on the path of scripts. */
export function languageOf(
  name: string,
  file: string,
  flags: readonly string[],
  { image, inline }: Pick<ContainerLanguage, 'image' | 'inline'>,
): ScriptLanguage {
  return {
    name,
    file,
    program: (account) => findProgram(name, account),
    flags: () => flags,
    memoryOf: 'addresses',
    baseMemoryMb: 0,
    inContainer: { image, command: [name, ...flags], inline },
  }
}
