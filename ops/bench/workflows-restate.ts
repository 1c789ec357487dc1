import { createServer } from 'node:http2'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

/** A Restate service with a handler of three journaled steps. `node workflows-restate.ts <folder of the peers>` */
const [folder = ''] = process.argv.slice(2)
const restate = createRequire(join(folder, 'package.json'))('@restatedev/restate-sdk')

interface Context {
  run<T>(name: string, work: () => T): Promise<T>
}

const three = restate.service({
  name: 'three',
  handlers: {
    async run(context: Context, who: string) {
      const first = await context.run('first', () => ({ message: `Hello ${who}` }))
      const second = await context.run('second', () => ({ message: `I said ${first.message}` }))
      return await context.run('third', () => ({ message: `So ${second.message}` }))
    },
  },
})
const handler = restate.endpoint().bind(three).http2Handler()
const server = createServer(handler)
server.listen(0, '127.0.0.1', () => {
  process.send?.({ kind: 'ready', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
})
process.on('disconnect', () => process.exit())
