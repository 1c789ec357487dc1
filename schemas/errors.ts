import { dataErrors } from './data/errors.ts'
import { functionErrors } from './functions/errors.ts'
import { httpErrors } from './http/errors.ts'
import { provisioningErrors } from './provisioning/errors.ts'
import { workflowErrors } from './workflows/errors.ts'

/** Every error code of the platform, with its HTTP status and meaning: the README's errors page is held to it by a test. */
export const errorCodes = {
  ...httpErrors,
  ...dataErrors,
  ...functionErrors,
  ...provisioningErrors,
  ...workflowErrors,
} as const

export type ErrorCode = keyof typeof errorCodes
