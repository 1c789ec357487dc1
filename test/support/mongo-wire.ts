import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { createServer, type Socket } from 'node:net'
import { BSON, type Document } from 'mongodb'
import type { Owner } from './servers.ts'

export interface MongoWire {
  readonly port: number
  readonly url: string
  /** The commands that came, without those of the connection itself. */
  readonly commands: Document[]
  /** How many connections are open. */
  readonly open: () => number
}

interface MongoWireOptions {
  /** Answers a command; null: never. */
  readonly answer: (command: Document) => Document | null
  /** What it says of itself beside the usual. */
  readonly hello?: () => Document
  readonly account?: { readonly user: string; readonly password: string }
}

const opReply = 1
const opQuery = 2004
const opMsg = 2013
/** A request that wants no answer. */
const moreToCome = 2
const exhaustAllowed = 0x1_0000

const ofTheConnection = new Set(['hello', 'ismaster', 'isMaster', 'ping', 'saslStart', 'saslContinue', 'endSessions'])

/**
 * Speaks MongoDB's wire protocol and checks each byte of what it gets: Debian has no MongoDB.
 * Source: https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/
 */
export async function testMongoWire(t: Owner, options: MongoWireOptions): Promise<MongoWire> {
  const commands: Document[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
    const login = new Scram(options.account)
    let buffered = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      buffered = Buffer.concat([buffered, chunk])
      while (buffered.length >= 4 && buffered.length >= buffered.readInt32LE(0)) {
        const length = buffered.readInt32LE(0)
        const message = messageOf(buffered.subarray(0, length))
        buffered = buffered.subarray(length)
        const name = Object.keys(message.command)[0]!
        if (!ofTheConnection.has(name)) commands.push(message.command)
        const reply = replyTo(name, message.command, options, login)
        if (reply !== null && !message.isSilent) socket.write(encoded(message, reply))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as { port: number }
  return { port, url: `mongodb://127.0.0.1:${port}/shop`, commands, open: () => sockets.size }
}

function replyTo(name: string, command: Document, options: MongoWireOptions, login: Scram): Document | null {
  if (/^(hello|ismaster)$/i.test(name)) {
    return {
      isWritablePrimary: true,
      helloOk: true,
      maxBsonObjectSize: 16_777_216,
      maxMessageSizeBytes: 48_000_000,
      maxWriteBatchSize: 100_000,
      logicalSessionTimeoutMinutes: 30,
      minWireVersion: 0,
      maxWireVersion: 21,
      ...options.hello?.(),
      ok: 1,
    }
  }
  if (name === 'ping' || name === 'endSessions') return { ok: 1 }
  if (name === 'saslStart' || name === 'saslContinue') return login.step(command)
  if (!login.done) return { ok: 0, code: 13, codeName: 'Unauthorized', errmsg: 'command requires authentication' }
  return options.answer(command)
}

interface Message {
  readonly id: number
  readonly isQuery: boolean
  readonly isSilent: boolean
  readonly command: Document
}

function messageOf(bytes: Buffer): Message {
  const id = bytes.readInt32LE(4)
  if (bytes.readInt32LE(8) !== 0) throw new Error('a request answers nothing')
  const opCode = bytes.readInt32LE(12)
  if (opCode === opQuery) {
    const end = bytes.indexOf(0, 20)
    if (bytes.toString('latin1', 20, end) !== 'admin.$cmd') throw new Error('a legacy query that is no command')
    return { id, isQuery: true, isSilent: false, command: documentAt(bytes, end + 9, bytes.length) }
  }
  if (opCode !== opMsg) throw new Error(`the operation ${opCode} is not in use`)
  const flags = bytes.readUInt32LE(16)
  if ((flags & ~(moreToCome | exhaustAllowed)) !== 0) throw new Error(`flags ${flags} of which one is not known`)
  let command: Document | null = null
  const sequences: Document = {}
  for (let at = 20; at < bytes.length; ) {
    const kind = bytes[at]
    const size = bytes.readInt32LE(at + 1)
    const section = bytes.subarray(at + 1, at + 1 + size)
    if (section.length !== size) throw new Error('a section that is longer than its message')
    if (kind === 0 && command === null) command = documentAt(section, 0, size)
    else if (kind === 1) Object.assign(sequences, sequenceOf(section))
    else throw new Error(`a second body, or a section of kind ${kind}`)
    at += 1 + size
  }
  if (command === null) throw new Error('a message without a body')
  return { id, isQuery: false, isSilent: (flags & moreToCome) !== 0, command: { ...command, ...sequences } }
}

function sequenceOf(section: Buffer): Document {
  const end = section.indexOf(0, 4)
  const documents: Document[] = []
  for (let at = end + 1; at < section.length; at += section.readInt32LE(at)) {
    documents.push(documentAt(section, at, at + section.readInt32LE(at)))
  }
  return { [section.toString('utf8', 4, end)]: documents }
}

function documentAt(bytes: Buffer, from: number, to: number): Document {
  if (bytes.readInt32LE(from) !== to - from) throw new Error('a document that is not as long as it says')
  return BSON.deserialize(bytes.subarray(from, to), { promoteValues: true })
}

let lastId = 0

function encoded({ id, isQuery }: Message, reply: Document): Buffer {
  const body = Buffer.from(BSON.serialize(reply))
  const head = Buffer.alloc(isQuery ? 36 : 21)
  head.writeInt32LE(head.length + body.length, 0)
  head.writeInt32LE(++lastId, 4)
  head.writeInt32LE(id, 8)
  head.writeInt32LE(isQuery ? opReply : opMsg, 12)
  if (isQuery) head.writeInt32LE(1, 32)
  return Buffer.concat([head, body])
}

/** The server's side of SCRAM-SHA-256. Source: RFC 5802 and RFC 7677 */
class Scram {
  done: boolean
  readonly #account: { readonly user: string; readonly password: string } | undefined
  readonly #salt = randomBytes(16)
  #said = ''

  constructor(account?: { readonly user: string; readonly password: string }) {
    this.#account = account
    this.done = account === undefined
  }

  step(command: Document): Document {
    const payload = Buffer.from(command.payload.buffer as Uint8Array).toString('utf8')
    const parts = Object.fromEntries(
      payload
        .replace(/^n,,/, '')
        .split(',')
        .map((part) => [part[0]!, part.slice(2)]),
    )
    const answer = (text: string, done: boolean) => ({ conversationId: 1, done, payload: Buffer.from(text), ok: 1 })
    if (command.saslStart === 1) {
      const first = `r=${parts.r}${randomBytes(12).toString('base64')},s=${this.#salt.toString('base64')},i=4096`
      this.#said = `${payload.slice(3)},${first}`
      return command.mechanism === 'SCRAM-SHA-256' && parts.n === this.#account?.user ? answer(first, false) : refused
    }
    if (this.done) return answer('', true)
    const salted = pbkdf2Sync(this.#account!.password, this.#salt, 4096, 32, 'sha256')
    const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()
    const clientKey = hmac(salted, 'Client Key')
    const signed = `${this.#said},${payload.replace(/,p=.*$/, '')}`
    const signature = hmac(createHash('sha256').update(clientKey).digest(), signed)
    const proof = clientKey.map((byte, at) => byte ^ signature[at]!)
    if (Buffer.from(proof).toString('base64') !== parts.p) return refused
    this.done = true
    return answer(`v=${hmac(hmac(salted, 'Server Key'), signed).toString('base64')}`, true)
  }
}

const refused = { ok: 0, code: 18, codeName: 'AuthenticationFailed', errmsg: 'Authentication failed.' }
