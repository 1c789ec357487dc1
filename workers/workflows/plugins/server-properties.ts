import { isIP } from 'node:net'
import { type ConnectionOptions, checkServerIdentity } from 'node:tls'
import { type Static, type TProperties, Type } from 'typebox'
import { TaskFailure } from '../plugin.ts'

/** Who one is on a server, where a URL is no good place for a password with special characters. */
export const accountProperties = {
  user: Type.Optional(Type.String({ description: 'Account; default: the one in `url`', examples: ['app'] })),
  password: Type.Optional(
    Type.String({ description: 'Its password; default: the one in `url`', examples: ['${DB.password}'] }),
  ),
} satisfies TProperties

/** How TLS is spoken; PEM is written as it stands in a file. */
export const TlsSettings = Type.Object(
  {
    ca: Type.Optional(
      Type.String({
        description: "Certificates of the authorities to trust, PEM; default: the system's",
        examples: ['${DB.ca}'],
      }),
    ),
    certificate: Type.Optional(
      Type.String({ description: 'Certificate of this client, PEM', examples: ['${DB.certificate}'] }),
    ),
    key: Type.Optional(Type.String({ description: 'Its private key, PEM', examples: ['${DB.key}'] })),
    serverName: Type.Optional(
      Type.String({ description: 'Name in the certificate; default: that of the host', examples: ['db.example.com'] }),
    ),
    verify: Type.Boolean({
      description: 'Whether the certificate has to be right; without it anybody can stand between',
      default: true,
      examples: [true],
    }),
  },
  {
    description: 'Speaks TLS, and how; a URL that says so itself needs none of it',
    additionalProperties: false,
    examples: [{ verify: true }],
  },
)
type Settings = Static<typeof TlsSettings>

/** As Node's `tls.connect` takes it; `host`: what the certificate has to name. */
export function tlsOptions(settings: Partial<Settings>, host: string): ConnectionOptions {
  const { ca, certificate, key, serverName = host, verify = true } = settings
  return {
    rejectUnauthorized: verify,
    // Over a connection that is there already, Node would otherwise compare addresses with `localhost`.
    checkServerIdentity: (_name, peer) => checkServerIdentity(serverName, peer),
    ...(isIP(serverName) === 0 && { servername: serverName }),
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && { cert: certificate }),
    ...(key !== undefined && { key }),
  }
}

export interface ServerPlace {
  /** Without its colon. */
  readonly scheme: string
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  /** Without its first slash, decoded. */
  readonly path: string
  readonly query: URLSearchParams
}

/**
 * A server's URL taken apart; account properties win over what it says.
 * @param ports the schemes there are, and the port of each
 * @throws {TaskFailure} `refused`; the text does not repeat the URL, which may hold a password
 */
export function serverPlace(
  { url: text, user, password }: { readonly url: string; readonly user?: string; readonly password?: string },
  ports: Readonly<Record<string, number>>,
): ServerPlace {
  const url = URL.parse(text)
  const scheme = url?.protocol.slice(0, -1) ?? ''
  if (url === null || !Object.hasOwn(ports, scheme) || url.hostname === '') {
    const form = Object.keys(ports)
      .map((each) => `${each}://`)
      .join(' or ')
    throw new TaskFailure('refused', `properties.url is no address of a server: it begins with ${form}`)
  }
  try {
    return {
      scheme,
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? ports[scheme]! : Number(url.port),
      user: user ?? decodeURIComponent(url.username),
      password: password ?? decodeURIComponent(url.password),
      path: decodeURIComponent(url.pathname.replace(/^\//, '')),
      query: url.searchParams,
    }
  } catch (cause) {
    throw new TaskFailure('refused', 'properties.url has a % that is not followed by two digits', cause)
  }
}

/** @throws {TaskFailure} `refused`, naming the first property that an operation cannot do without and that is not given */
export function needProperties(
  input: { readonly operation: string } & Readonly<Record<string, unknown>>,
  needed: readonly string[],
): void {
  const missing = needed.find((name) => input[name] === undefined)
  if (missing === undefined) return
  throw new TaskFailure('refused', `properties.${missing} is needed for the operation ${input.operation}`)
}
