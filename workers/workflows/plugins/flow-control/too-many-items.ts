import { TaskFailure } from '../../plugin.ts'
import { maxRows } from '../expression.ts'

/** The same limit for what lists become as for the lists that are given. */
export function tooManyItems(): TaskFailure {
  return new TaskFailure('refused', `The result has more than ${maxRows} items`)
}
