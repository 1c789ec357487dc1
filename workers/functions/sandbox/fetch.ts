import { headerPairs } from './headers.ts'
import { request as askHost, currentInvocation, lastOperationId, tell } from './host.ts'
import { Request, type Response, receivedResponse } from './http.ts'
import { bodyBytes } from './http-body.ts'
import { NativePromise } from './intrinsics.ts'
import type { FetchAnswer, FetchHead } from './operations.ts'
import { fromLatin1, latin1, pack, unpack } from './wire.ts'

/** The web's fetch; the supervisor does it, under the egress policy. */
export async function fetch(input: unknown, init?: object): Promise<Response> {
  const request = new Request(input, init)
  const { signal } = request
  signal.throwIfAborted()
  const bytes = bodyBytes(request)
  // Without a prototype no toJSON of the user's can write the head, which names the call that it is counted for.
  const head: FetchHead & { __proto__: null } = {
    __proto__: null,
    url: request.url,
    method: request.method,
    headers: headerPairs(request.headers),
    redirect: request.redirect,
    hasBody: bytes !== null,
    invocationId: currentInvocation(),
  }
  const sent = askHost('fetch', pack(head, bytes === null ? '' : latin1(bytes)))
  const answer = unpack<FetchAnswer>(await unlessAborted(sent, lastOperationId(), signal))
  return receivedResponse(answer.head, fromLatin1(answer.rest))
}

function unlessAborted(sent: Promise<string>, operationId: number, signal: Request['signal']): Promise<string> {
  return new NativePromise((resolve, reject) => {
    const abort = () => {
      tell(operationId, 'abandon')
      reject(signal.reason)
    }
    signal.addEventListener('abort', abort, { once: true })
    const done = () => signal.removeEventListener('abort', abort)
    sent.then(
      (packet) => {
        done()
        resolve(packet)
      },
      (error) => {
        done()
        reject(error)
      },
    )
  })
}
