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
  return await askedTwice()
}

async function firstLine(): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  const [line = ''] = Buffer.concat(chunks).toString('utf8').split(/\r?\n/)
  if (line !== '') return line
  throw new OperatorError(`A password is needed: at the terminal, on standard input, or in ${variable}.`)
}

/** Shows the questions, and nothing of the answers. */
async function askedTwice(): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  // Before the question is shown, for from here on nothing that is typed is echoed.
  const terminal = createInterface({ input: process.stdin, output: nowhere, terminal: true })
  const left = new Promise<never>((_, fail) => {
    terminal.once('SIGINT', () => fail(new OperatorError('No password was given.')))
    terminal.once('close', () => fail(new OperatorError('No password was given.')))
  })
  left.catch(() => undefined)
  const ask = async (question: string) => {
    process.stderr.write(question)
    const answer = await Promise.race([terminal.question(''), left])
    process.stderr.write('\n')
    return answer
  }
  try {
    const password = await ask('Password: ')
    if ((await ask('Again: ')) === password) return password
    throw new OperatorError('These are two different passwords.')
  } finally {
    terminal.close()
  }
}
