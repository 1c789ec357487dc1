/** Codes any HTTP service can answer with. */
export const httpErrors = {
  'http/bad-request': { status: 400, meaning: 'The request is malformed: a header, the URL or the body.' },
  'http/unauthorized': { status: 401, meaning: 'A token is required, or the one sent is invalid or expired.' },
  'http/forbidden': { status: 403, meaning: 'The caller may not do this.' },
  'http/not-found': { status: 404, meaning: 'No such route.' },
  'http/method-not-allowed': { status: 405, meaning: 'The route exists, but not for this method.' },
  'http/not-acceptable': { status: 406, meaning: 'None of the accepted media types can be produced.' },
  'http/payload-too-large': { status: 413, meaning: 'The body is larger than the limit.' },
  'http/unsupported-media-type': { status: 415, meaning: 'The body has a media type the route does not read.' },
  'http/too-many-requests': { status: 429, meaning: 'A limit on requests or connections is reached.' },
  'http/internal': { status: 500, meaning: 'A fault of ours; the requestId finds it in the log.' },
  'http/unavailable': { status: 503, meaning: 'A part the request needs is away; try again after Retry-After.' },
} as const
