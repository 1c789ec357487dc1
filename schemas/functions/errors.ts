/** Codes of the function runtime. Its HTTP bodies carry the text alone: `{"error": "<text>"}`. */
export const functionErrors = {
  'functions/not-found': { status: 404, meaning: 'No function has this id.' },
  'functions/unknown-revision': {
    status: 404,
    meaning: 'The function has no such revision, or it is too old to go back to.',
  },
  'functions/unknown-invocation': {
    status: 404,
    meaning: 'No asynchronous invocation has this id, or its result is forgotten.',
  },
  'functions/invalid-request': {
    status: 400,
    meaning: 'A field of the request is missing, unknown or not usable; the text names it.',
  },
  'functions/does-not-compile': { status: 400, meaning: 'The source has an error; the text has its line and column.' },
  'functions/limit-reached': { status: 429, meaning: 'As many functions as there may be are deployed.' },
  'functions/no-handler': { status: 400, meaning: 'The source defines no function named handler.' },
  'functions/timeout': { status: 504, meaning: 'The handler ran longer than it may.' },
  'functions/threw': {
    status: 500,
    meaning: 'The handler threw; the text is its message, the stack is in the log of the function.',
  },
  'functions/unserialisable': { status: 500, meaning: 'The result of the handler is neither JSON nor a response.' },
  'functions/output-too-large': { status: 500, meaning: 'The result of the handler is larger than it may be.' },
  'functions/memory': { status: 500, meaning: 'The handler used more memory than it may.' },
  'functions/too-many-calls': { status: 429, meaning: 'As many calls of the function as there may be are running.' },
  'functions/worker-lost': {
    status: 502,
    meaning: 'The process that ran the call ended; the call may have had effects.',
  },
  'functions/secrets-off': { status: 501, meaning: 'Secrets cannot be kept, because app.secrets.keys is not set.' },
  'functions/unavailable': { status: 503, meaning: 'No function worker runs; try again after Retry-After.' },
} as const
