/** Codes of the provisioning service. */
export const provisioningErrors = {
  'provisioning/not-found': { status: 404, meaning: 'There is no such instance.' },
  'provisioning/exists': { status: 409, meaning: 'An instance of that projectName exists.' },
  'provisioning/namespace-taken': {
    status: 409,
    meaning: 'Another orgId and projectName make the same namespace.',
  },
  'provisioning/deletion-protected': { status: 409, meaning: 'Deletion protection is on.' },
  'provisioning/operation-in-progress': {
    status: 409,
    meaning: 'The instance is busy with another operation; details.operation says with which.',
  },
  'provisioning/invalid-state': { status: 409, meaning: 'The instance is not in a state for what was asked.' },
  'provisioning/operation-not-found': { status: 404, meaning: 'The instance knows of no such operation.' },
  'provisioning/operation-failed': {
    status: 500,
    meaning: 'The operation that the request waited for has failed; details.operation says why.',
  },
  'provisioning/backup-not-found': { status: 404, meaning: 'There is no such backup.' },
  'provisioning/outside-window': {
    status: 422,
    meaning: 'No backup leads to the time asked for; details has the earliest and the latest there is.',
  },
  'provisioning/snapshot-not-found': { status: 404, meaning: 'There is no such snapshot.' },
  'provisioning/range-not-satisfiable': {
    status: 416,
    meaning: 'The snapshot has no such part; Content-Range says how many bytes it has.',
  },
  'provisioning/migration-conflict': {
    status: 409,
    meaning: 'The version was applied with another text, or a newer one was applied before.',
  },
  'provisioning/invalid-parameter': {
    status: 422,
    meaning: 'The server knows no such parameter, may not have it changed, or refuses the value.',
  },
  'provisioning/unsupported': { status: 422, meaning: 'This kind of database, or this driver, cannot do it.' },
  'provisioning/answer-too-large': {
    status: 422,
    meaning: 'What was asked for is more than can be told at once; a lower limit or fewer lines can be.',
  },
  'provisioning/idempotency-mismatch': {
    status: 422,
    meaning: 'The Idempotency-Key was used before with another body.',
  },
  'provisioning/engine-missing': {
    status: 424,
    meaning: 'No server program of that kind is on the machine; the hint says how to get one.',
  },
  'provisioning/no-secret-keys': { status: 424, meaning: 'Passwords cannot be sealed: app.secrets.keys is not set.' },
  'provisioning/quota': { status: 429, meaning: 'A limit on instances, disk or ports is reached.' },
  'provisioning/parameter-group-not-found': { status: 404, meaning: 'There is no such parameter group.' },
  'provisioning/parameter-group-exists': { status: 409, meaning: 'A parameter group of that name exists.' },
  'provisioning/parameter-group-in-use': { status: 409, meaning: 'Instances use the parameter group.' },
} as const
