import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { resolve } from 'node:path'
import { bringDebianPackages } from '../../ops/local/debian-packages.ts'
import { environment } from '../../schemas/config/environment.ts'
import type { Owner } from './servers.ts'

interface TestKafka {
  readonly url: string
  /** Sends messages with the client of librdkafka: `key:value` a line. @param codec packs them */
  produce(topic: string, lines: string, codec?: string): void
  /** What the client of librdkafka finds in a topic, `key headers value` a line. */
  consume(topic: string, count: number): string
}

/** The broker in memory that comes with librdkafka, a client that is not the plugin's. */
export async function testKafka(t: Owner): Promise<TestKafka> {
  const folder = environment().BUSBAR_DATA ?? resolve(import.meta.dirname, '../../.busbar')
  const packages = await bringDebianPackages({ folder, name: 'kafka', packages: ['kcat'] })
  const program = packages.binary('kcat')
  const options = { env: packages.environment }
  // A client that waits for messages in the broker that it has itself.
  const hold = ['-C', '-t', 'hold', '-b', 'itself', '-X', 'test.mock.num.brokers=1', '-d', 'mock']
  const child = spawn(program, hold, { ...options, stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  const broker = await new Promise<string>((found) => {
    let told = ''
    child.stderr.on('data', (chunk) => {
      told = `${told}${chunk}`.slice(-10_000)
      const [, place] = /bootstrap\.servers=(127\.0\.0\.1:\d+)\n/.exec(told) ?? []
      if (place !== undefined) found(place)
    })
  })
  const run = (args: string[], input = '') =>
    execFileSync(program, ['-b', broker, '-X', 'broker.address.family=v4', ...args], { ...options, input }).toString()
  return {
    url: `kafka://${await door(t, broker)}`,
    produce: (topic, lines, codec = 'none') =>
      void run(['-P', '-t', topic, '-K', ':', '-z', codec, '-X', 'message.max.bytes=100000000'], lines),
    consume: (topic, count) =>
      run(['-C', '-t', topic, '-o', 'beginning', '-c', String(count), '-q', '-f', '%k %h %s\\n']),
  }
}

const told = Buffer.from('000200000005', 'hex')
const meant = Buffer.from('000200000003', 'hex')

/**
 * Where clients come in, to ask which versions there are. The broker of librdkafka 2.0 says version 5 of ListOffsets, but leaves out
 * a field that came with 4: here it says 3.
 */
async function door(t: Owner, broker: string): Promise<string> {
  const port = Number(broker.split(':')[1])
  const server = createServer((client) => {
    const behind = connect(port, '127.0.0.1')
    client.on('error', () => behind.destroy()).pipe(behind)
    behind.on('error', () => client.destroy()).on('end', () => client.end())
    behind.on('data', (chunk) => {
      const at = chunk.indexOf(told)
      if (at >= 0) meant.copy(chunk, at)
      client.write(chunk)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}
