import pg from 'pg'

/*
 * What a filter means, said a second time and in another way: SQL with literals, functions instead of operators where PostgreSQL has
 * both. It shares no code with the gateway.
 */

const literal = pg.escapeLiteral
const name = pg.escapeIdentifier

export interface ColumnKind {
  readonly type: string
  /** Values as PostgreSQL reads them; filters take theirs from here too. */
  readonly pool: readonly string[]
  readonly family: 'text' | 'number' | 'time' | 'boolean' | 'json' | 'array' | 'range' | 'other'
  readonly sortable?: false
}

export const columns: Readonly<Record<string, ColumnKind>> = {
  i: { type: 'integer', pool: ['-1', '0', '1', '2', '3', '2147483647'], family: 'number' },
  small: { type: 'smallint', pool: ['-32768', '0', '7'], family: 'number' },
  big: {
    type: 'bigint',
    pool: ['9007199254740993', '9007199254740992', '-9223372036854775808', '0'],
    family: 'number',
  },
  num: { type: 'numeric', pool: ['0.10', '0.1', '12345678901234567890.123', 'NaN', '-1'], family: 'number' },
  float: { type: 'double precision', pool: ['0.1', '-0', '1e300', 'NaN', 'Infinity', '-Infinity'], family: 'number' },
  real: { type: 'real', pool: ['0.1', '1.5', '16777217'], family: 'number' },
  price: { type: 'money', pool: ['$1.00', '-$5.25', '$1,000.00'], family: 'other' },
  word: {
    type: 'text',
    pool: [
      '',
      'a',
      'A',
      'ab',
      'a,b',
      '(a)',
      'say "a"',
      'back\\slash',
      '50%',
      'under_score',
      ' a ',
      'null',
      'eq.1',
      'ü😀',
      '{a}',
      "it's",
    ],
    family: 'text',
  },
  short: { type: 'varchar(5)', pool: ['a', 'abcde', 'not.a'], family: 'text' },
  fixed: { type: 'char(3)', pool: ['a', 'ab', 'abc'], family: 'text' },
  label: { type: 'name', pool: ['a', 'b c'], family: 'text' },
  mail: { type: 'email', pool: ['a@b.c', 'A@b.c', 'in.(x)@y'], family: 'text' },
  flag: { type: 'boolean', pool: ['true', 'false'], family: 'boolean' },
  day: { type: 'date', pool: ['2024-02-29', '2024-03-01', 'infinity', '0044-03-15 BC'], family: 'time' },
  hour: { type: 'time', pool: ['00:00:00', '23:59:59.999999'], family: 'time' },
  at: {
    type: 'timestamptz',
    pool: ['2024-03-01 00:00:00.000001+00', '2024-03-01 01:00:00+01', '-infinity'],
    family: 'time',
  },
  local: { type: 'timestamp', pool: ['2024-03-01 00:00:00', '2024-03-01 00:00:00.5'], family: 'time' },
  span: { type: 'interval', pool: ['1 day', '24:00:00', '1 mon', '-3 days 01:02:03.5'], family: 'time' },
  key: {
    type: 'uuid',
    pool: ['00000000-0000-4000-8000-000000000001', 'ffffffff-0000-4000-8000-00000000000f'],
    family: 'other',
  },
  mood: { type: 'feeling', pool: ['sad', 'ok', 'in "love"', 'so, so'], family: 'other' },
  host: { type: 'inet', pool: ['10.0.0.1', '10.0.0.0/8', '::1'], family: 'other' },
  bits: { type: 'bit(4)', pool: ['1010', '0101'], family: 'other' },
  morebits: { type: 'varbit', pool: ['1', '101', '0'], family: 'other' },
  bytes: { type: 'bytea', pool: ['\\x', '\\x00ff', '\\x616263'], family: 'other' },
  place: { type: 'place', pool: ['("Main, St",5)', '(,5)', '(,)', '(x,)'], family: 'other' },
  doc: {
    type: 'jsonb',
    pool: ['{}', '{"a": 1}', '{"a": 1, "b": [1, "x"]}', '[1, "a"]', '"a"', '12345678901234567890', '{"a,b": "c\\"d"}'],
    family: 'json',
  },
  rawdoc: { type: 'json', pool: ['{"a":1}', '{"b" : [1,"x"], "a":1}', '[]'], family: 'json', sortable: false },
  numbers: { type: 'integer[]', pool: ['{}', '{1,2}', '{1,NULL}', '{{1,2},{3,4}}'], family: 'array' },
  words: { type: 'text[]', pool: ['{}', '{a,b}', '{"a,b","c\\"d"}', '{"",NULL}', '{"null"}'], family: 'array' },
  moods: { type: 'feeling[]', pool: ['{sad}', '{ok,"so, so"}'], family: 'array' },
  wordlist: { type: 'word_list', pool: ['{a}', '{a,b,c}'], family: 'array' },
  span4: { type: 'int4range', pool: ['[1,10)', '(,5]', 'empty', '[10,)'], family: 'range' },
  spans: { type: 'tstzrange', pool: ['["2024-01-01 00:00:00+00","2024-02-01 00:00:00+00")', '(,)'], family: 'range' },
  many4: { type: 'int4multirange', pool: ['{}', '{[1,3),[5,8)}', '{(,)}'], family: 'range' },
}

/** Settings that decide how values look as text; the gateway's sessions have the same. */
export const sessionSql = `set intervalstyle = iso_8601; set timezone = 'UTC'; set datestyle = 'ISO'; set default_text_search_config = 'pg_catalog.simple'`

export const typesSql = `
  create type feeling as enum ('sad', 'ok', 'happy', 'in "love"', 'so, so');
  create type place as (street text, "no" integer);
  create domain email as text check (value like '%@%');
  create domain word_list as text[];`

export const columnsSql: string = Object.entries(columns)
  .map(([column, { type }]) => `${name(column)} ${type}`)
  .join(', ')

export interface Condition {
  readonly kind: 'condition'
  readonly column: string
  readonly operator: string
  /** One operand, or several of an operator that takes a list. */
  readonly values: readonly string[]
}

export type Wanted =
  | Condition
  | { readonly kind: 'and'; readonly items: readonly Wanted[] }
  | { readonly kind: 'or'; readonly items: readonly Wanted[] }
  | { readonly kind: 'not'; readonly item: Wanted }

export function oracleSql(wanted: Wanted): string {
  switch (wanted.kind) {
    case 'and':
    case 'or':
      return wanted.items.map((item) => `(${oracleSql(item)})`).join(` ${wanted.kind} `)
    case 'not':
      return `not (${oracleSql(wanted.item)})`
    case 'condition':
      return conditionSql(wanted)
  }
}

function conditionSql({ column, operator, values }: Condition): string {
  const { type, family } = columns[column]!
  const json = type === 'json'
  const plain = name(column)
  const left = json ? `${plain}::jsonb` : plain
  // Without a length: a longer literal is another value, not one that is cut.
  const loose = json ? 'jsonb' : type.replace(/^varchar.*/, 'varchar').replace(/^char.*/, 'bpchar')
  const right = values.map((value) => `${literal(value)}::${loose}`)
  const [first = 'null'] = right
  const text = literal(values[0] ?? '')
  const escaped = literal((values[0] ?? '').replace(/[\\%_]/g, '\\$&'))
  const shown = `${plain}::text`
  // PostgreSQL matches patterns against char(n) with its padding.
  const padded = type.startsWith('char') ? { name: 'bpchar', sql: plain } : { name: 'text', sql: shown }
  const call = (verb: string, array = '') => {
    if (family === 'array') return `${array}(${left}, ${first})`
    const name = type === 'int4multirange' ? `multirange_${verb}_multirange` : `range_${verb}`
    return `${name}(${left}, ${first})`
  }
  const keys = `array[${values.map((value) => literal(value)).join(', ')}]::text[]`
  const document = `to_tsvector('simple', ${family === 'json' ? `${plain}::jsonb` : shown})`
  const search = (toQuery: string) => `ts_match_vq(${document}, ${toQuery}('simple', ${text}))`
  switch (operator) {
    case 'eq':
      return `${left} = ${first}`
    case 'neq':
      return `not (${left} = ${first})`
    case 'gt':
      return `not (${left} <= ${first})`
    case 'gte':
      return `not (${left} < ${first})`
    case 'lt':
      return `not (${left} >= ${first})`
    case 'lte':
      return `not (${left} > ${first})`
    case 'isdistinct':
      return `not (${left} is not distinct from ${first})`
    case 'in':
      return values.length === 0 ? 'false' : right.map((value) => `${left} = ${value}`).join(' or ')
    case 'notin':
      return values.length === 0 ? 'true' : right.map((value) => `${left} <> ${value}`).join(' and ')
    case 'is':
      return values[0] === 'null' ? `num_nulls(${plain}) = 1` : `${plain} is ${values[0]}`
    case 'isnotnull':
      return `num_nulls(${plain}) = ${values[0] === 'false' ? 1 : 0}`
    case 'like':
      return `${padded.name}like(${padded.sql}, ${text})`
    case 'ilike':
      return `${padded.name}iclike(${padded.sql}, ${text})`
    case 'startswith':
      return `${shown} like ${escaped} || '%'`
    case 'endswith':
      return `${shown} like '%' || ${escaped}`
    case 'contains':
      return `${shown} like '%' || ${escaped} || '%'`
    case 'match':
      return `${padded.name}regexeq(${padded.sql}, ${text})`
    case 'imatch':
      return `${padded.name}icregexeq(${padded.sql}, ${text})`
    case 'haskey':
      return `jsonb_exists(${left}, ${text})`
    case 'haskeys':
      return `jsonb_exists_all(${left}, ${keys})`
    case 'hasanykeys':
      return `jsonb_exists_any(${left}, ${keys})`
    case 'jsoncontains':
      return `jsonb_contains(${left}, ${first})`
    case 'jsoncontained':
      return `jsonb_contained(${left}, ${first})`
    case 'arraycontains':
    case 'arrayhasall':
      return `arraycontains(${left}, ${first})`
    case 'arrayhasany':
      return `arrayoverlap(${left}, ${first})`
    case 'arraylength':
      return `case when ${left} is not null then (select count(*) from unnest(${left})) = ${Number(values[0])} end`
    case 'cs':
      return family === 'json' ? `jsonb_contains(${left}, ${first})` : call('contains', 'arraycontains')
    case 'cd':
      return family === 'json' ? `jsonb_contained(${left}, ${first})` : call('contained_by', 'arraycontained')
    case 'ov':
      return call('overlaps', 'arrayoverlap')
    case 'sl':
      return call('before')
    case 'sr':
      return call('after')
    case 'nxl':
      return call('overright')
    case 'nxr':
      return call('overleft')
    case 'adj':
      return call('adjacent')
    case 'fts(simple)':
      return search('to_tsquery')
    case 'plfts(simple)':
      return search('plainto_tsquery')
    case 'phfts(simple)':
      return search('phraseto_tsquery')
    case 'wfts(simple)':
      return search('websearch_to_tsquery')
    default:
      throw new Error(`the oracle does not know ${operator}`)
  }
}
