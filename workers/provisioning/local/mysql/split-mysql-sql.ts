/**
 * Cuts MySQL's SQL into its statements at the semicolons that end one: not those in strings, names and comments. A line
 * `DELIMITER //` changes the end mark, as the command-line client has it for bodies of procedures. Empty ones are left out.
 */
export function splitMysqlSql(sql: string): readonly string[] {
  const statements: string[] = []
  let delimiter = ';'
  let start = 0
  const push = (end: number) => {
    const text = sql.slice(start, end).trim()
    if (withoutMysqlComments(text).trim() !== '') statements.push(text)
  }
  for (let at = 0; at < sql.length; ) {
    const command =
      at === 0 || sql[at - 1] === '\n' ? /^[ \t]*delimiter[ \t]+(\S+)[^\n]*/i.exec(sql.slice(at, at + 200)) : null
    if (command !== null) {
      push(at)
      delimiter = command[1]!
      at += command[0].length
      start = at
      continue
    }
    const quoted = endOfQuoted(sql, at)
    if (quoted > at) at = quoted
    else if (sql.startsWith(delimiter, at)) {
      push(at)
      at += delimiter.length
      start = at
    } else at++
  }
  push(sql.length)
  return statements
}

/** The place after a string, quoted name or comment that begins at `at`; `at` when none does. */
function endOfQuoted(sql: string, at: number): number {
  const char = sql[at]!
  if (char === '#' || (sql.startsWith('--', at) && /\s|^$/.test(sql[at + 2] ?? ''))) return endAt(sql, '\n', at)
  if (sql.startsWith('/*', at)) return endAt(sql, '*/', at + 2)
  if (char === '`') return endAt(sql, '`', at + 1)
  if (char !== "'" && char !== '"') return at
  for (let end = at + 1; end < sql.length; end++) {
    if (sql[end] === '\\') end++
    else if (sql[end] === char) return end + 1
  }
  return sql.length
}

function endAt(sql: string, mark: string, from: number): number {
  const found = sql.indexOf(mark, from)
  return found === -1 ? sql.length : found + mark.length
}

/** `/*! ... *\/` is not a comment: the server runs it. */
export function withoutMysqlComments(text: string): string {
  let rest = ''
  for (let at = 0; at < text.length; ) {
    const end = endOfQuoted(text, at)
    const comment = /^(--|#|\/\*(?![!M]))/.test(text.slice(at, at + 3)) && end > at
    if (!comment) rest += text.slice(at, Math.max(end, at + 1))
    at = Math.max(end, at + 1)
  }
  return rest
}
