import { createServer, type Socket } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import type { Owner } from './servers.ts'

interface ImapMail {
  readonly uid: number
  readonly source: string
  readonly flags: Set<string>
}

interface ImapOptions {
  readonly mails: readonly ImapMail[]
  readonly account: { readonly user: string; readonly password: string }
  /** Offers STARTTLS. */
  readonly tls?: { readonly certificate: string; readonly key: string }
  /** Called with each command, before it is answered. */
  readonly onCommand?: (name: string) => void
}

/**
 * A mail server that speaks as much of IMAP as it takes to read a folder, and checks what it is told: Debian's keep their files in
 * places of the system. Source: RFC 3501
 */
export async function testImap(
  t: Owner,
  options: ImapOptions,
): Promise<{ readonly url: string; readonly commands: string[] }> {
  const commands: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
    talk(socket, options, commands)
    socket.write('* OK ready\r\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `imap://127.0.0.1:${(server.address() as { port: number }).port}`, commands }
}

function talk(socket: Socket, options: ImapOptions, commands: string[], isSecure = false): void {
  const session = { isOpen: false, isSecure }
  let rest = ''
  socket.on('data', (chunk) => {
    rest += chunk.toString('latin1')
    for (let end = rest.indexOf('\r\n'); end >= 0; end = rest.indexOf('\r\n')) {
      const line = rest.slice(0, end)
      rest = rest.slice(end + 2)
      const [, tag, name = '', args = ''] = /^(\S+) (UID \w+|\w+) ?(.*)$/i.exec(line) ?? []
      commands.push(`${name} ${args}`.trim())
      options.onCommand?.(name.toUpperCase())
      if (name.toUpperCase() === 'STARTTLS' && options.tls !== undefined) {
        socket.removeAllListeners('data')
        socket.write(`${tag} OK begin\r\n`)
        const { certificate: cert, key } = options.tls
        const secure = new TLSSocket(socket, { isServer: true, secureContext: createSecureContext({ cert, key }) })
        secure.on('error', () => undefined)
        talk(secure, options, commands, true)
        return
      }
      socket.write(answer(name.toUpperCase(), args, options, session).replaceAll('{tag}', tag!), 'latin1')
      if (name.toUpperCase() === 'LOGOUT') socket.end()
    }
  })
}

function answer(
  name: string,
  args: string,
  options: ImapOptions,
  session: { isOpen: boolean; readonly isSecure: boolean },
): string {
  const { account, mails, tls } = options
  const capabilities = `IMAP4rev1${tls !== undefined && !session.isSecure ? ' STARTTLS' : ''}`
  if (name === 'CAPABILITY') return `* CAPABILITY ${capabilities}\r\n{tag} OK done\r\n`
  if (name === 'LOGOUT') return '* BYE see you\r\n{tag} OK done\r\n'
  if (name === 'NOOP') return '{tag} OK done\r\n'
  if (name === 'LOGIN') {
    const [user, password] = [...args.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(
      ([, quoted, plain]) => quoted ?? plain,
    )
    session.isOpen = user === account.user && password === account.password
    return session.isOpen ? '{tag} OK done\r\n' : '{tag} NO [AUTHENTICATIONFAILED] who are you\r\n'
  }
  if (!session.isOpen) return '{tag} BAD log in first\r\n'
  if (name === 'LIST' && args === '"" ""') return '* LIST (\\Noselect) "/" ""\r\n{tag} OK done\r\n'
  if (name === 'LIST' || name === 'LSUB') return '{tag} OK done\r\n'
  if (name === 'SELECT' || name === 'EXAMINE') {
    if (!/^"?INBOX"?$/i.test(args)) return '{tag} NO [NONEXISTENT] there is no such folder\r\n'
    const told = ['FLAGS (\\Seen)', `${mails.length} EXISTS`, '0 RECENT', 'OK [UIDVALIDITY 1] ok', 'OK [UIDNEXT 99] ok']
    return `${told.map((each) => `* ${each}\r\n`).join('')}{tag} OK [READ-${name === 'EXAMINE' ? 'ONLY' : 'WRITE'}] done\r\n`
  }
  if (name === 'UID SEARCH') return `* SEARCH ${search(args, mails).join(' ')}\r\n{tag} OK done\r\n`
  const [set = '', rest = ''] = [args.split(' ')[0], args.slice(args.indexOf(' ') + 1)]
  const chosen = mails.filter(({ uid }) => set.split(',').includes(String(uid)))
  if (name === 'UID STORE') {
    for (const { flags } of chosen) flags.add('\\Seen')
    return '{tag} OK done\r\n'
  }
  if (name !== 'UID FETCH') return '{tag} BAD what\r\n'
  return `${chosen.map((mail) => fetched(mail, mails.indexOf(mail) + 1, rest)).join('')}{tag} OK done\r\n`
}

function search(args: string, mails: readonly ImapMail[]): number[] {
  const from = /\bFROM "?([^" ]+)/.exec(args)?.[1]
  const subject = /\bSUBJECT "?([^" ]+)/.exec(args)?.[1]
  const after = Number(/\bUID (\d+):\*/.exec(args)?.[1] ?? 0)
  const last = mails.at(-1)?.uid
  return mails
    .filter(({ uid, source, flags }) => {
      const header = (name: string) => new RegExp(`^${name}: (.*)$`, 'im').exec(source)?.[1] ?? ''
      return (
        (!/\bUNSEEN\b/.test(args) || !flags.has('\\Seen')) &&
        // A range behind the last one is the last one.
        (uid >= after || uid === last) &&
        header('From').includes(from ?? '') &&
        header('Subject').includes(subject ?? '')
      )
    })
    .map(({ uid }) => uid)
}

function fetched({ uid, source, flags }: ImapMail, sequence: number, items: string): string {
  const parts = [`UID ${uid}`]
  if (items.includes('RFC822.SIZE')) parts.push(`RFC822.SIZE ${source.length}`)
  if (items.includes('FLAGS')) parts.push(`FLAGS (${[...flags].join(' ')})`)
  if (items.includes('INTERNALDATE')) parts.push('INTERNALDATE "01-Jan-2027 00:00:00 +0000"')
  if (items.includes('BODY')) parts.push(`BODY[] {${source.length}}\r\n${source}`)
  return `* ${sequence} FETCH (${parts.join(' ')})\r\n`
}
