import type { FastifyInstance } from 'fastify'
import { bodyOf } from '../http/request.ts'
import { askOf } from './operations.ts'
import { type ByProject, textField } from './request.ts'
import type { ProvisioningService } from './service.ts'

/** The worker gives a migration 60 s. */
const migrateMs = 75_000
const maxSqlLength = 1024 * 1024

/** Migrations of an instance's schema; the record of each lies in the database itself, written with what it changed. */
export function migrationRoutes(app: FastifyInstance, service: ProvisioningService): void {
  app.post<ByProject>('/api/provision/:projectId/migrations', async (request) => {
    const { version, name, sql, description } = bodyOf(request, ['version', 'name', 'sql', 'description'])
    const migration = {
      version: textField('version', version, { max: 64 }),
      name: textField('name', name, { max: 200 }),
      sql: textField('sql', sql, { max: maxSqlLength }),
      ...(description !== undefined && { description: textField('description', description, { min: 0, max: 2_000 }) }),
    }
    return await askOf<object>(service, request.params.projectId, 'migrate', migration, migrateMs)
  })
  app.get<ByProject>('/api/provision/:projectId/migrations', async (request) => {
    return await askOf<readonly object[]>(service, request.params.projectId, 'migrations')
  })
}
