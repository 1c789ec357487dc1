import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { secureSocket } from '../secure-socket.ts'
import { type ServerPlace, tlsOptions } from '../server-properties.ts'
import type { ExchangeRun, Told } from './exchange.ts'

/** An open connection, with TLS where it is asked for, and what there is to say about it. */
export async function openConnection(
  { given }: ExchangeRun,
  { host, port }: ServerPlace,
  isSecure: boolean,
): Promise<{ readonly socket: Socket; readonly told: Told }> {
  const { input, services, signal } = given
  const startedAt = performance.now()
  const plain = await services.net.connect({ host, port, signal })
  const socket = isSecure ? await secureSocket(plain, tlsOptions(input.tls ?? {}, host)) : plain
  const connectMs = Math.round(performance.now() - startedAt)
  const address = plain.remoteFamily === 'IPv6' ? `[${plain.remoteAddress}]` : plain.remoteAddress
  return { socket, told: { address: `${address}:${port}`, connectMs, certificate: certificateOf(socket) } }
}

function certificateOf(socket: Socket): unknown {
  if (!(socket instanceof TLSSocket)) return null
  const {
    subject,
    issuer,
    valid_from: from,
    valid_to: to,
    fingerprint256,
    subjectaltname,
  } = socket.getPeerCertificate()
  return {
    version: socket.getProtocol(),
    subject: subject?.CN ?? null,
    names: subjectaltname ?? null,
    issuer: issuer?.CN ?? null,
    validFrom: new Date(from).toISOString(),
    validTo: new Date(to).toISOString(),
    sha256: fingerprint256,
    isRight: socket.authorized,
  }
}
