import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { type Connection, createConnection } from 'mysql2/promise'
import t from 'tap'
import { connectBus, makeStream, readStream, type Stored, streamName, until } from '../capture/support.ts'
import { testMysql } from '../support/mysql.ts'
import { testNats } from '../support/servers.ts'

t.setTimeout(180_000)

const writers = 4
const rowsOfWriter = 20

const [mysql, nats] = await Promise.all([testMysql(t), testNats(t, { syncInterval: 'always' })])
const bus = await connectBus(t, nats.url)
await makeStream(bus)

async function connectMysql(): Promise<Connection> {
  const connection = await createConnection({ uri: mysql.url, multipleStatements: true })
  connection.on('error', () => undefined)
  return connection
}

const note = (when: string, row: string) =>
  `create trigger public.noted_${when} after ${when} on public.item for each row
     insert into audit.history (operation, id, version) values (upper('${when}'), ${row}.id, ${row}.version)`
const owner = await connectMysql()
for (const text of [
  'create database public',
  'create database audit',
  // What belongs to one row is in the order of its lock.
  `create table audit.history (ordinal bigint primary key auto_increment, operation varchar(9), id int, version int, key (id))`,
  'create table public.item (id int primary key, version int not null, filling text)',
  'create table public.probe (number int primary key)',
  note('insert', 'new'),
  note('update', 'new'),
  note('delete', 'old'),
])
  await owner.query(text)
owner.destroy()

/** The capture, started again each time it is killed. */
class Victim {
  readonly seen: string[] = []
  #child: ChildProcess | null = null

  start(): void {
    const script = join(import.meta.dirname, 'mysql-capture-process.ts')
    this.#child = spawn(process.execPath, [script, mysql.url, nats.url, streamName], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    createInterface({ input: this.#child.stdout! }).on('line', (line) => this.seen.push(line))
  }

  async kill(): Promise<void> {
    const child = this.#child!
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
}

const victim = new Victim()
victim.start()
t.teardown(() => victim.kill())
await until(() => victim.seen.some((line) => line.includes('"state":"running"')))

/** Transactions on rows of its own, until told to stop: of all sizes, some of them taken back as a whole or in part. */
async function transaction(on: Connection, writer: number, round: number): Promise<void> {
  await on.query('start transaction')
  const count = round % 20 === 19 ? 200 : 1 + (round % 7)
  for (let step = 0; step < count; step++) {
    const id = writer * rowsOfWriter + ((round + step) % rowsOfWriter)
    if (step % 3 === 2) await on.query('savepoint s')
    if (round % 11 === 10 && step === 0) await on.query('delete from public.item where id = ?', [id])
    else {
      await on.query(
        `insert into public.item values (?, 1, repeat('x', ?)) on duplicate key update version = version + 1, filling = values(filling)`,
        [id, (round * 37) % 3000],
      )
    }
    if (step % 6 === 5) await on.query('rollback to savepoint s')
  }
  await on.query(round % 5 === 4 ? 'rollback' : 'commit')
}

/** Goes on with another connection when the server was killed. */
async function write(writer: number, stopped: () => boolean): Promise<void> {
  let on: Connection | null = null
  for (let round = 0; !stopped(); round++) {
    try {
      on ??= await connectMysql()
      await transaction(on, writer, round)
    } catch {
      on?.destroy()
      on = null
      await delay(20)
    }
  }
  on?.destroy()
}

const { streams } = await jetstreamManager(bus)

/** Newest message of the stream; fails while the bus is away. */
async function lastSequence(): Promise<number> {
  return (await streams.info(streamName)).state.last_seq
}

/** Ends the connections that the log is read by. */
async function cut(): Promise<void> {
  const on = await connectMysql()
  const [threads] = await on.query(
    "select id as id from information_schema.processlist where command like 'Binlog Dump%'",
  )
  for (const { id } of threads as { id: number }[]) await on.query(`kill ${id}`).catch(() => undefined)
  on.destroy()
}

t.test('nothing is lost, doubled or out of order while everything is killed under load', async (t) => {
  let isOver = false
  const writing = Promise.all(Array.from({ length: writers }, (_, writer) => write(writer, () => isOver)))
  const wounds: readonly (() => Promise<unknown>)[] = [
    async () => {
      await victim.kill()
      victim.start()
    },
    cut,
    async () => {
      await nats.kill()
      await nats.restart()
    },
    async () => {
      await mysql.kill()
      await mysql.restart()
    },
    async () => {
      await Promise.all([victim.kill(), nats.kill(), mysql.kill()])
      victim.start()
      await Promise.all([nats.restart(), mysql.restart()])
    },
  ]
  let reached = 0
  for (let round = 0; round < 10; round++) {
    await wounds[round % wounds.length]!()
    // It must have come through before it is struck again, at another moment of its work each time.
    await until(async () => (await lastSequence().catch(() => 0)) > reached)
    reached = await lastSequence()
    await delay(40 + ((round * 53) % 200))
  }
  isOver = true
  await writing
  const on = await connectMysql()
  await on.query('insert into public.probe values (1)')
  const all = await readStream(bus, ({ subject }) => subject === 'cdc.main.public.probe.insert')
  const [history] = await on.query('select operation, id, version from audit.history order by ordinal')
  on.destroy()
  compare(all.slice(0, -1), history as Entry[])

  function compare(stored: readonly Stored[], wanted: readonly Entry[]): void {
    const gaps = stored.filter(({ subject }) => subject.endsWith('.gap'))
    t.equal(gaps.length, 1, 'the one of the start')
    const found = stored.filter(({ subject }) => subject.includes('.item.')).map(entryOf)
    t.ok(found.length > 500, `${found.length} changes`)
    t.equal(found.length, wanted.length)
    for (let id = 0; id < writers * rowsOfWriter; id++) {
      const of = (entries: readonly Entry[]) =>
        entries.filter((each) => each.id === id).map(({ operation, version }) => `${operation} ${version}`)
      t.strictSame(of(found), of(wanted), `row ${id}`)
    }
  }
})

interface Entry {
  readonly operation: string
  readonly id: number
  readonly version: number
}

function entryOf({ body }: Stored): Entry {
  const { type, data } = JSON.parse(body)
  const { id, version } = type === 'UPDATE' ? data.new : data
  return { operation: type, id, version }
}
