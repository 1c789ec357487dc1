/** Operations whose SQL is written down, for each dialect in a file of its own. */
export interface CompileCase {
  readonly title: string
  readonly query: string
  readonly variables?: Readonly<Record<string, unknown>>
}

export const compileCases: readonly CompileCase[] = [
  { title: 'a list', query: '{ publicTag { id word } }' },
  {
    title: 'aliases, __typename, skipped fields and fragments',
    query:
      'query($no: Boolean!) { publicTag(limit: 1) { n: word __typename id @skip(if: $no) ...f } } fragment f on PublicTag { again: id }',
    variables: { no: true },
  },
  { title: 'a name that PostgreSQL would cut', query: `{ publicTag(limit: 1) { id ${'w'.repeat(64)}: word } }` },
  {
    title: 'eq and several operators',
    query: '{ publicTag(where: { id: { gte: 1, lt: 3, neq: 2 }, word: { eq: "sea" } }) { id } }',
  },
  {
    title: 'in and notIn',
    query: 'query($in: [Int!]) { publicTag(where: { id: { in: $in, notIn: [1] } }) { id } }',
    variables: { in: [1, 2, 3] },
  },
  {
    title: 'NULL',
    query:
      '{ publicAuthor(where: { or: [{ born: { eq: null } }, { mood: { isNull: true } }, { home: { isNotNull: false } }] }) { id } }',
  },
  {
    title: 'contains, startsWith and endsWith take % and _ as they are',
    query: '{ publicAuthor(where: { name: { contains: "_", startsWith: "Cy_", endsWith: "%" } }) { id } }',
  },
  { title: 'like and ilike', query: '{ publicAuthor(where: { name: { like: "%\\\\%", ilike: "cy__" } }) { id } }' },
  {
    title: 'and, or, not',
    query:
      '{ publicTag(where: { not: { or: [{ id: { eq: 1 } }, { and: [{ id: { gt: 1 } }, { word: { eq: "sky" } }] }] } }) { id } }',
  },
  { title: 'nothing in or, and, not, in', query: '{ a: publicTag(where: { or: [] }) { id } }' },
  {
    title: 'arrays and JSON',
    query: '{ publicBook(where: { tags: { contains: ["y"] }, info: { contains: { n: 1 } } }) { isbn } }',
  },
  {
    title: 'an enum under another name, and a composite',
    query:
      '{ publicAuthor(where: { mood: { eq: so_so } }) { mood home { street } } b: publicAuthor(where: { home: { eq: { street: "Main", no: 1 } } }) { mood home { s: street no } } }',
  },
  {
    title: 'across a relation to one',
    query: '{ publicBook(where: { publicAuthor: { name: { eq: "Ada" } } }) { isbn } }',
  },
  { title: 'some', query: '{ publicAuthor(where: { publicBook: { some: { price: { gt: "5" } } } }) { id } }' },
  { title: 'none', query: '{ publicAuthor(where: { publicBook: { none: {} } }) { id } }' },
  {
    title: 'every: what the filter does not say yes of does not match',
    query: '{ publicAuthor(where: { publicBook: { every: { price: { gt: "5" } } } }) { id } }',
  },
  {
    title: 'through a link table',
    query: '{ publicTag(where: { publicBook: { some: { isbn: { eq: "a" }, shop: { eq: 2 } } } }) { word } }',
  },
  {
    title: 'orders with NULLs on either side',
    query: '{ publicBook(orderBy: [{ price: DESC_NULLS_LAST }, { title: ASC_NULLS_FIRST }]) { price title } }',
  },
  {
    title: 'an order in one object, as it is written in a default',
    query:
      'query($o: [PublicBookOrderBy!] = [{ title: DESC, shop: ASC }]) { publicBook(orderBy: $o, limit: 2) { title } }',
  },
  { title: 'limit and offset', query: '{ publicBook(limit: 2, offset: 1) { shop isbn } }' },
  {
    title: 'relations both ways, with arguments',
    query:
      '{ publicAuthor(where: { id: { eq: 1 } }) { publicBook(where: { price: { isNotNull: true } }, orderBy: { title: DESC }, limit: 1, offset: 0) { title publicAuthor { name } publicTag { word } } publicAuthorByMentor_id { name } } }',
  },
  {
    title: 'a connection forward',
    query:
      '{ publicTagConnection(first: 1) { totalCount pageInfo { hasNextPage hasPreviousPage } edges { node { word } } } }',
  },
  {
    title: 'a connection behind a cursor, by NULLable columns',
    query:
      'query($after: String) { publicBookConnection(first: 1, after: $after, orderBy: { price: ASC }) { pageInfo { hasNextPage hasPreviousPage } edges { node { title price } } } }',
  },
  {
    title: 'a connection back',
    query: '{ publicTagConnection(last: 2) { pageInfo { hasNextPage hasPreviousPage } edges { node { word } } } }',
  },
  {
    title: 'a node asked for twice',
    query: '{ publicTagConnection(first: 1) { a: edges { node { x: id } } b: edges { node { x: word } } } }',
  },
  { title: 'only a count', query: '{ publicTagConnection(where: { id: { gt: 1 } }) { totalCount } }' },
  {
    title: 'numbers',
    query:
      '{ publicBookAggregate(where: { shop: { eq: 1 } }) { count sum { price shop } avg { price } min { title } max { price } } }',
  },
  {
    title: 'numbers of groups',
    query:
      '{ publicBookAggregate { groupBy(columns: [shop, author_id], limit: 3, offset: 1) { key { shop author_id title } count max { title } } } }',
  },
  {
    title: 'create',
    query:
      'mutation { createPublicAuthor(input: { id: 4, name: "Di", mood: so_so, home: { street: "a \\"b\\"", no: 3 }, mentor_id: 1 }) { name mood home { street no } publicAuthor { publicAuthorByMentor_id { id } } } }',
  },
  {
    title: 'createMany',
    query: 'mutation { createManyPublicTag(inputs: [{ id: 5, word: "five" }, { word: "six", id: 6 }]) { id word } }',
  },
  {
    title: 'createMany with different columns',
    query:
      'mutation { createManyPublicBook(inputs: [{ shop: 3, isbn: "x", title: "X" }, { shop: 3, isbn: "y", title: "Y", price: "1.5" }, { title: "Z", isbn: "z", shop: 3 }]) { isbn price } }',
  },
  {
    title: 'createMany fails as a whole',
    query: 'mutation { createManyPublicTag(inputs: [{ id: 7, word: "seven" }, { id: 8, word: "five" }]) { id } }',
  },
  { title: 'none of it is there', query: '{ publicTag(where: { id: { gt: 6 } }) { id } }' },
  {
    title: 'update by a composite key',
    query:
      'mutation { updatePublicBook(input: { shop: 1, isbn: "b", price: "8.80", tags: ["p,q", null], info: [1, { a: null }] }) { title price tags info } }',
  },
  {
    title: 'update of a column to NULL, seen through its relations',
    query:
      'mutation { updatePublicBook(input: { shop: 1, isbn: "b", price: null }) { publicAuthor { publicBook { isbn price } } } }',
  },
  {
    title: 'update of a row that is not there',
    query: 'mutation { updatePublicBook(input: { shop: 9, isbn: "b", price: "1" }) { isbn } }',
  },
  {
    title: 'delete, with relations as they were',
    query: 'mutation { deletePublicTag(input: { id: 5 }) { word publicBook { isbn } } }',
  },
]
