import { type Bus, connectBus } from '../bus/connect.ts'
import { reconcileStreams, streamSpecs, TopologyRefused } from '../bus/topology.ts'
import { maskUrl } from '../schemas/config/mask.ts'
import type { Config } from '../schemas/config.ts'
import { OperatorError } from './local/operator-error.ts'
import type { Log } from './log.ts'
import { observe } from './observe.ts'

/**
 * A role's connection to the bus, once the streams that it needs are what they are declared to be.
 * @param needs the stream of row changes alone, for the data APIs; or all of the platform's
 * @throws {OperatorError} when the bus cannot be reached, is too old, or holds a stream that cannot be made to fit.
 */
export async function openBus(config: Config, log: Log, name: string, needs: 'changes' | 'all'): Promise<Bus> {
  const bus = await reach(config['app.nats.url'], log, name)
  const changeStream = config['app.nats.stream-name']
  const specs = streamSpecs({
    changeStream,
    changeAgeMs: config['app.changes.retention-age'],
    changeBytes: config['app.changes.retention-size'],
    functionsBytes: config['app.functions.kv-total-size'],
  })
  try {
    const wanted = needs === 'all' ? specs : specs.filter((spec) => spec.name === changeStream)
    for (const { name: stream, outcome, changed } of await reconcileStreams(bus, wanted)) {
      if (outcome !== 'unchanged') log.info({ stream, outcome, changed }, 'stream-reconciled')
    }
    return bus
  } catch (error) {
    await bus.close()
    throw error instanceof TopologyRefused ? new OperatorError(error.message, { cause: error }) : error
  }
}

async function reach(url: string, log: Log, name: string): Promise<Bus> {
  try {
    return await connectBus({ url, name: `busbar ${name}`, onObservation: observe(log) })
  } catch (error) {
    const reason = (error as Error).message
    throw new OperatorError(`app.nats.url: no bus at ${maskUrl(url)} (${reason}): is nats-server running there?`, {
      cause: error,
    })
  }
}
