import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { environment } from '../schemas/config/environment.ts'
import { OperatorError } from './local/operator-error.ts'

/** Where a password may come from besides the terminal and standard input. Never the command line, which others can see. */
const variable = 'BUSBAR_PASSWORD'

/** A password: from the environment, else asked for twice at a terminal, else the first line of standard input. @throws {OperatorError} */
export async function newPassword(): Promise<string> {
  const given = environment()[variable]
  if (given !== undefined && given !== '') return given
  if (process.stdin.isTTY !== true) return await firstLine()
  const password = await ask('Password: ')
  if ((await ask('Again: ')) !== password) throw new OperatorError('These are two different passwords.')
  return password
}

async function firstLine(): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  const [line = ''] = Buffer.concat(chunks).toString('utf8').split(/\r?\n/)
  if (line !== '') return line
  throw new OperatorError(`A password is needed: at the terminal, on standard input, or in ${variable}.`)
}

/** Shows the question, and nothing of the answer. */
async function ask(question: string): Promise<string> {
  process.stderr.write(question)
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = createInterface({ input: process.stdin, output: nowhere, terminal: true })
  try {
    return await terminal.question('')
  } finally {
    terminal.close()
    process.stderr.write('\n')
  }
}
