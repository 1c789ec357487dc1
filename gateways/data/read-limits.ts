/** What one request may ask for at most. Everything a stranger controls has a number here. */
export interface ReadLimits {
  /** Rows when no limit is given (`app.default-page-size`). */
  readonly defaultPageSize: number
  /** A larger limit is lowered to this (`app.max-page-size`). */
  readonly maxPageSize: number
  /** Comparisons in all filters of a request together, expansions included. */
  readonly maxFilters: number
  /** How deep `and`/`or` groups nest. */
  readonly maxFilterDepth: number
  /** Values in one `in` list. */
  readonly maxListLength: number
  /** Characters of one parameter of the request. */
  readonly maxValueLength: number
  readonly maxSelected: number
  readonly maxSortKeys: number
  /** How deep expansions nest. */
  readonly maxExpandDepth: number
  /** Expansions of a request, at all depths together. */
  readonly maxExpansions: number
  /** Rows in the body of one bulk insert. */
  readonly maxInsertRows: number
}

export const defaultReadLimits: ReadLimits = {
  defaultPageSize: 100,
  maxPageSize: 1000,
  maxFilters: 100,
  maxFilterDepth: 10,
  maxListLength: 1000,
  maxValueLength: 16_384,
  maxSelected: 1600,
  maxSortKeys: 16,
  maxExpandDepth: 5,
  maxExpansions: 32,
  maxInsertRows: 50_000,
}
