import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Owner } from './servers.ts'

/** What a name server says to a question: data of records, a code (2 for a fault, 3 for no such name), or null for nothing at all. */
export type DnsAnswer = readonly Buffer[] | 2 | 3 | null

/** A name server. Source: RFC 1035 section 4 @returns `address:port` */
export async function testDns(t: Owner, answer: (name: string, type: number) => DnsAnswer): Promise<string> {
  const server = createSocket('udp4')
  server.on('message', (question, { port, address }) => {
    const end = question.indexOf(0, 12) + 1
    const labels: string[] = []
    for (let at = 12; question[at] !== 0; at += question[at]! + 1)
      labels.push(question.toString('latin1', at + 1, at + 1 + question[at]!))
    const type = question.readUInt16BE(end)
    const said = answer(labels.join('.'), type)
    if (said === null) return
    const records = typeof said === 'number' ? [] : said
    const head = Buffer.from(question.subarray(0, 12))
    head.writeUInt16BE(0x8180 | (typeof said === 'number' ? said : 0), 2)
    head.writeUInt16BE(records.length, 6)
    head.writeUInt32BE(0, 8)
    const made = records.map((data) =>
      Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, data.length >> 8, data.length & 255]), data]),
    )
    server.send(Buffer.concat([head, question.subarray(12, end + 4), ...made]), port, address)
  })
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `127.0.0.1:${server.address().port}`
}

/** A name as records have it. */
export function dnsName(name: string): Buffer {
  return Buffer.concat([
    ...name.split('.').map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)])),
    Buffer.from([0]),
  ])
}
