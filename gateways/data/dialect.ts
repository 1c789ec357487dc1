import type { Catalog } from './catalog.ts'
import type { NumbersShape } from './numbers-ast.ts'
import type { ListRequest } from './read-request.ts'
import type { Statement } from './statement.ts'
import type { WriteRequest } from './write-request.ts'

/** A statement ready to run with any values of its shape. */
export interface Compiled {
  readonly statement: Statement
  /** `heavy` statements should not share a pipelined connection with others. */
  readonly weight: 'cheap' | 'heavy'
}

/** How a database is asked: the same requests, each in its own words. Results have the same columns. */
export interface Dialect {
  readonly name: 'postgresql' | 'mysql'
  compileList(catalog: Catalog, request: Pick<ListRequest, 'shape'>): Compiled
  compileNumbers(catalog: Catalog, shape: NumbersShape): Compiled
  compileWrite(catalog: Catalog, request: Pick<WriteRequest, 'shape'>): Compiled
}
