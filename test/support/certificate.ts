import { generateKeyPairSync, sign } from 'node:crypto'

/** A self-signed certificate for 127.0.0.1, and for these names, and its key, as PEM. Source: RFC 5280 section 4.1. */
export function selfSignedCertificate(names: readonly string[] = []): {
  readonly certificate: string
  readonly key: string
} {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = der(0x30, der(0x31, der(0x30, der(0x06, oid.commonName), der(0x0c, Buffer.from('busbar test')))))
  const signature = der(0x30, der(0x06, oid.ecdsaWithSha256))
  const alternatives = names.map((each) => der(0x82, Buffer.from(each)))
  const loopback = der(0x30, der(0x87, Buffer.from([127, 0, 0, 1])), ...alternatives)
  const body = der(
    0x30,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    signature,
    name,
    der(0x30, der(0x17, Buffer.from('200101000000Z')), der(0x17, Buffer.from('491231235959Z'))),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, der(0x30, der(0x06, oid.subjectAltName), der(0x04, loopback)))),
  )
  const signed = der(0x30, body, signature, der(0x03, Buffer.from([0]), sign('sha256', body, privateKey)))
  const lines = signed.toString('base64').replace(/.{64}/g, '$&\n')
  return {
    certificate: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

const oid = {
  commonName: Buffer.from('550403', 'hex'),
  subjectAltName: Buffer.from('551d11', 'hex'),
  ecdsaWithSha256: Buffer.from('2a8648ce3d040302', 'hex'),
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const size = content.length
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff]
  return Buffer.concat([Buffer.from([tag, ...length]), content])
}
