/** Codes of the workflow engine. */
export const workflowErrors = {
  'workflows/invalid-flow': {
    status: 400,
    meaning: 'The flow has mistakes; details.errors lists them with line and column.',
  },
  'workflows/invalid-input': {
    status: 400,
    meaning: 'An input of the execution is missing, unknown or of the wrong type.',
  },
  'workflows/flow-not-found': { status: 404, meaning: 'There is no such flow, or no such revision of it.' },
  'workflows/flow-exists': { status: 409, meaning: 'The namespace has a flow of that name.' },
  'workflows/flow-disabled': { status: 409, meaning: 'The flow is disabled and starts no executions.' },
  'workflows/execution-not-found': { status: 404, meaning: 'There is no such execution.' },
  'workflows/execution-ended': {
    status: 409,
    meaning: 'The execution has ended; what was asked is for one that runs.',
  },
  'workflows/execution-state': { status: 409, meaning: 'The execution is not in a state for what was asked.' },
  'workflows/approval-not-found': { status: 404, meaning: 'There is no such approval.' },
  'workflows/approval-decided': { status: 409, meaning: 'The approval is decided, or has expired.' },
  'workflows/trigger-not-found': { status: 404, meaning: 'There is no such trigger, or it is disabled.' },
  'workflows/trigger-exists': { status: 409, meaning: 'The key of the webhook is that of another trigger.' },
  'workflows/trigger-declared': { status: 409, meaning: 'The trigger is written in its flow and is changed there.' },
  'workflows/signature-refused': {
    status: 401,
    meaning: 'The signature of a delivery to a webhook is missing, wrong or too old.',
  },
  'workflows/plugin-not-found': { status: 404, meaning: 'No worker offers such a plugin.' },
  'workflows/credential-not-found': { status: 404, meaning: 'There is no such credential.' },
  'workflows/credential-exists': { status: 409, meaning: 'The namespace has a credential of that name.' },
  'workflows/kv-not-found': { status: 404, meaning: 'The namespace has no such key.' },
  'workflows/kv-conflict': { status: 409, meaning: 'The key is at another version.' },
  'workflows/user-exists': { status: 409, meaning: 'The name is taken.' },
  'workflows/login-refused': { status: 401, meaning: 'User name or password is wrong.' },
  'workflows/forbidden': { status: 403, meaning: 'The role may not do this.' },
} as const
