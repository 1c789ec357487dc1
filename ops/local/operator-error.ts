/**
 * Something only the person at the terminal can mend: a port in use, a wrong URL, a missing right. The text is the whole
 * answer: it is printed as one line, without a stack, and the exit code is 1.
 */
export class OperatorError extends Error {
  override readonly name = 'OperatorError'
}
