import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'pg'
import { restCases } from './dataset.ts'

/**
 * The floor of the REST benchmark, in a process of its own: bare node:http and pg, prepared statements, JSON built by
 * PostgreSQL. No validation, no tokens, no row security. Path: `/<case>/<n>`.
 */
const [url = '', poolSize = '10'] = process.argv.slice(2)
const pool = new Pool({ connectionString: url, max: Number(poolSize) })

const server = createServer((request, response) => {
  const [, index = '', n = ''] = (request.url ?? '').split('/')
  const chosen = restCases[Number(index)]
  if (!chosen) {
    response.writeHead(404).end()
    return
  }
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    if (chosen.method === 'POST') JSON.parse(Buffer.concat(chunks).toString())
    const query = { name: index, text: chosen.floorSql, values: [...chosen.floorParameters(Number(n))], types: asText }
    pool.query({ ...query, rowMode: 'array' }).then(
      ({ rows }) => {
        const body = Buffer.from((rows[0] as string[])[0] ?? '')
        response
          .writeHead(chosen.status, { 'content-type': 'application/json', 'content-length': body.length })
          .end(body)
      },
      (error: Error) => response.writeHead(500).end(error.message),
    )
  })
})
const asText = { getTypeParser: () => (text: string) => text } as never

server.listen(0, '127.0.0.1', () => {
  process.send?.({ kind: 'ready', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
})
process.on('disconnect', () => process.exit())
