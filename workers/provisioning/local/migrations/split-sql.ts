/**
 * Cuts PostgreSQL's SQL into its statements at the semicolons that end one: not those in strings, names, comments, dollar
 * quotes, parentheses and bodies of SQL functions (`BEGIN ATOMIC ... END`). Empty statements are left out.
 *
 * Source: https://www.postgresql.org/docs/current/sql-syntax-lexical.html
 */
export function splitPostgresSql(sql: string): readonly string[] {
  const statements: string[] = []
  let start = 0
  let parens = 0
  let blocks = 0
  let words: string[] = []
  for (let at = 0; at < sql.length; ) {
    const quoted = endOfQuoted(sql, at)
    if (quoted > at) {
      at = quoted
      continue
    }
    const char = sql[at]!
    const word = /^[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/.exec(sql.slice(at, at + 128))?.[0]
    if (word !== undefined) {
      if (words.length < 4) words.push(word.toUpperCase())
      blocks = Math.max(0, blocks + blockChange(word.toUpperCase(), words, blocks))
      at += word.length
      continue
    }
    if (char === '(') parens++
    else if (char === ')') parens--
    else if (char === ';' && parens <= 0 && blocks === 0) {
      pushStatement(statements, sql.slice(start, at))
      start = at + 1
      words = []
      parens = 0
    }
    at++
  }
  pushStatement(statements, sql.slice(start))
  return statements
}

/** Only in a function's body: elsewhere BEGIN starts a transaction, and CASE ends within the statement anyway. */
function blockChange(word: string, words: readonly string[], open: number): number {
  const body = words[0] === 'CREATE' && words.slice(1).some((name) => name === 'FUNCTION' || name === 'PROCEDURE')
  if (!body) return 0
  if (word === 'BEGIN') return 1
  if (open === 0) return 0
  if (word === 'CASE') return 1
  return word === 'END' ? -1 : 0
}

function pushStatement(statements: string[], text: string): void {
  if (withoutComments(text).trim() !== '') statements.push(text.trim())
}

/** The place after a string, quoted name, comment or dollar quote that begins at `at`; `at` when none does. */
function endOfQuoted(sql: string, at: number): number {
  const char = sql[at]!
  if (char === '-' && sql[at + 1] === '-') return endAt(sql, '\n', at)
  if (char === '/' && sql[at + 1] === '*') return endOfComment(sql, at)
  if (char === '"') return endAt(sql, '"', at + 1)
  if (char === "'") return endOfString(sql, at + 1, /[eE]$/.test(sql.slice(Math.max(0, at - 1), at)) && !/\w[eE]$/.test(sql.slice(Math.max(0, at - 2), at))) // biome-ignore format: one call
  if (char !== '$' || /[\w$]/.test(sql[at - 1] ?? '')) return at
  const tag = /^\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/.exec(sql.slice(at, at + 128))?.[0]
  return tag === undefined ? at : endAt(sql, tag, at + tag.length)
}

function endAt(sql: string, mark: string, from: number): number {
  const found = sql.indexOf(mark, from)
  return found === -1 ? sql.length : found + mark.length
}

/** `/* *\/` nest. */
function endOfComment(sql: string, from: number): number {
  let depth = 0
  for (let at = from; at < sql.length; at++) {
    if (sql.startsWith('/*', at)) depth++
    else if (sql.startsWith('*/', at)) depth--
    else continue
    at++
    if (depth === 0) return at + 1
  }
  return sql.length
}

function endOfString(sql: string, from: number, escapes: boolean): number {
  for (let at = from; at < sql.length; at++) {
    if (escapes && sql[at] === '\\') at++
    else if (sql[at] === "'") return at + 1
  }
  return sql.length
}

function withoutComments(text: string): string {
  let rest = ''
  for (let at = 0; at < text.length; ) {
    const comment = /^(--|\/\*)/.test(text.slice(at, at + 2))
    const end = endOfQuoted(text, at)
    if (!comment) rest += text.slice(at, Math.max(end, at + 1))
    at = Math.max(end, at + 1)
  }
  return rest
}

/** The words a statement begins with, in capitals, comments left out. */
export function leadingWords(statement: string, count: number): readonly string[] {
  return withoutComments(statement).trim().split(/[\s(;]+/, count).map((word) => word.toUpperCase()) // biome-ignore format: one chain
}
