import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

/**
 * DBOS as a peer, in a process of its own: a workflow of three steps, started by an HTTP request to bare `node:http` and answered at its end.
 * `node workflows-dbos.ts <folder of the peers> <database url>`
 */
const [folder = '', url = ''] = process.argv.slice(2)
const { DBOS } = createRequire(join(folder, 'package.json'))('@dbos-inc/dbos-sdk')

DBOS.setConfig({ name: 'bench', systemDatabaseUrl: url, logLevel: 'error', runAdminServer: false })
const step = (name: string, text: string) => DBOS.runStep(async () => ({ message: text }), { name })
const three = DBOS.registerWorkflow(
  async (who: string) => {
    const first = await step('first', `Hello ${who}`)
    const second = await step('second', `I said ${first.message}`)
    return await step('third', `So ${second.message}`)
  },
  { name: 'three' },
)
await DBOS.launch()
const server = createServer((request, response) => {
  request.resume()
  three('you').then(
    (result: unknown) => response.end(JSON.stringify(result)),
    (error: unknown) => {
      response.statusCode = 500
      response.end(String(error))
    },
  )
})
server.listen(0, '127.0.0.1', () => {
  process.send?.({ kind: 'ready', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
})
process.on('disconnect', () => process.exit())
