import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import type { Client } from 'pg'
import t from 'tap'
import { changeHeader } from '../../schemas/data/change.ts'
import { parseLsn } from '../../workers/capture/lsn.ts'
import {
  connectBus,
  connectDatabase,
  makeStream,
  readStream,
  type Stored,
  streamName,
  until,
} from '../capture/support.ts'
import { testNats, testPostgres } from '../support/servers.ts'

t.setTimeout(120_000)

const writers = 4
const rowsOfWriter = 20

const [postgres, nats] = await Promise.all([testPostgres(t), testNats(t, { syncInterval: 'always' })])
const bus = await connectBus(t, nats.url)
await makeStream(bus)
const database = await connectDatabase(t, postgres.url)
await database.query(`
  create schema audit;
  create table audit.history (
    ordinal bigint generated always as identity primary key,
    transaction text default pg_current_xact_id()::text, operation text, id int, version int);
  create function audit.note() returns trigger language plpgsql as $$ begin
    insert into audit.history (operation, id, version) values (tg_op, coalesce(new.id, old.id), new.version);
    return null;
  end $$;
  create table item (id int primary key, version int not null, filling text);
  create trigger noted after insert or update or delete on item for each row execute function audit.note();
  create table probe (number int primary key)`)

/** The capture, started again each time it is killed. */
class Victim {
  readonly seen: string[] = []
  #child: ChildProcess | null = null

  start(): void {
    const script = join(import.meta.dirname, 'capture-process.ts')
    this.#child = spawn(process.execPath, [script, postgres.url, nats.url, streamName], {
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
async function write(client: Client, writer: number, stopped: () => boolean): Promise<void> {
  for (let round = 0; !stopped(); round++) {
    await client.query('begin')
    const count = round % 20 === 19 ? 200 : 1 + (round % 7)
    for (let step = 0; step < count; step++) {
      const id = writer * rowsOfWriter + ((round + step) % rowsOfWriter)
      if (step % 3 === 2) await client.query('savepoint s')
      if (round % 11 === 10 && step === 0) await client.query('delete from item where id = $1', [id])
      else {
        await client.query(
          `insert into item values ($1, 1, repeat('x', $2)) on conflict (id) do update
             set version = item.version + 1, filling = excluded.filling`,
          [id, (round * 37) % 3000],
        )
      }
      if (step % 6 === 5) await client.query('rollback to savepoint s')
    }
    await client.query(round % 5 === 4 ? 'rollback' : 'commit')
  }
}

const { streams } = await jetstreamManager(bus)

/** Newest message of the stream; fails while the bus is away. */
async function lastSequence(): Promise<number> {
  return (await streams.info(streamName)).state.last_seq
}

t.test('nothing is lost, doubled or out of order while everything is killed under load', async (t) => {
  let isOver = false
  const clients = await Promise.all(Array.from({ length: writers }, () => connectDatabase(t, postgres.url)))
  const writing = Promise.all(clients.map((client, writer) => write(client, writer, () => isOver)))
  const cut = () =>
    database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'busbar-capture%'`,
    )
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
      await Promise.all([victim.kill(), cut()])
      victim.start()
    },
    async () => {
      await Promise.all([victim.kill(), nats.kill()])
      victim.start()
      await nats.restart()
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
  await database.query('insert into probe values (1)')
  const all = await readStream(bus, ({ subject }) => subject === 'cdc.main.public.probe.insert')
  await compare(all.slice(0, -1))

  async function compare(stored: readonly Stored[]): Promise<void> {
    const { rows } = await database.query<{ transaction: string; change: string }>(
      `select transaction, concat_ws(' ', operation, id, version) as change from audit.history order by ordinal`,
    )
    t.ok(rows.length > 500, `${rows.length} changes were made`)
    t.strictSame(
      stored.filter(({ subject }) => subject === 'cdc.main.gap'),
      [],
      'no gap',
    )
    t.equal(stored.length, rows.length, 'as many as were made')
    const expected = Map.groupBy(rows, ({ transaction }) => transaction)
    const found = Map.groupBy(stored, ({ header }) => header(changeHeader.transaction))
    t.equal(found.size, expected.size, 'as many transactions')
    let different = 0
    for (const [transaction, changes] of expected) {
      const wanted = changes.map(({ change }) => change).join()
      const got = (found.get(transaction) ?? []).map(describe).join()
      if (wanted !== got) different += 1
    }
    t.equal(different, 0, 'each transaction is whole and in its own order')
    t.equal(countDisorder(stored), 0, 'in the order of the commits, transactions do not mix')
    t.equal(countVersionJumps(stored), 0, 'each row passes through all its versions')
  }
})

function describe({ body }: Stored): string {
  const { type, data } = JSON.parse(body)
  if (type === 'DELETE') return `DELETE ${data.id}`
  const row = type === 'UPDATE' ? data.new : data
  return `${type} ${row.id} ${row.version}`
}

function countDisorder(stored: readonly Stored[]): number {
  let disorder = 0
  let [lsn, index] = [0n, -1]
  for (const { header } of stored) {
    const next = parseLsn(header(changeHeader.lsn))
    const place = Number(header(changeHeader.index))
    if (next < lsn || (next === lsn && place <= index)) disorder += 1
    lsn = next
    index = place
  }
  return disorder
}

function countVersionJumps(stored: readonly Stored[]): number {
  const versions = new Map<number, number>()
  let jumps = 0
  for (const { body } of stored) {
    const { type, data } = JSON.parse(body)
    if (type === 'DELETE') versions.delete(data.id)
    else {
      const { id, version } = type === 'UPDATE' ? data.new : data
      if (version !== (versions.get(id) ?? 0) + 1) jumps += 1
      versions.set(id, version)
    }
  }
  return jumps
}
