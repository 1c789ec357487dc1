import { dataErrors } from './data/errors.ts'
import { httpErrors } from './http/errors.ts'

/** Every error code of the platform, with its HTTP status and meaning: the README's errors page is held to it by a test. */
export const errorCodes = { ...httpErrors, ...dataErrors } as const

export type ErrorCode = keyof typeof errorCodes
