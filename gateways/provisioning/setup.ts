import type { FastifyInstance } from 'fastify'
import { databaseTypes } from '../../schemas/provisioning/tiers.ts'
import type { Engines } from './provision.ts'
import { choiceField } from './request.ts'
import type { ProvisioningService } from './service.ts'

/** Programs may have to be fetched. */
const installMs = 280_000

/** What the driver stands on: what is there, and how what is missing comes. */
export function setupRoutes(app: FastifyInstance, service: ProvisioningService): void {
  const status = async () => {
    const { driver, engines } = await service.ask<Engines>('engines', {})
    const has = (type: string) => engines.some(({ databaseType, installed }) => databaseType === type && installed)
    return {
      postgresql: has('POSTGRESQL'),
      mysql: has('MYSQL'),
      mongodb: has('MONGODB'),
      driver,
      operators: engines.map(({ databaseType, installed, versions, advice }) => {
        return { databaseType, installed, ready: installed, versions, problems: advice === null ? [] : [advice] }
      }),
    }
  }
  app.get('/api/setup/status', status)
  app.post<{ Params: { databaseType: string } }>('/api/setup/install/:databaseType', async (request) => {
    const databaseType = choiceField('databaseType', request.params.databaseType.toUpperCase(), databaseTypes)
    await service.ask('install', {}, { databaseType }, installMs)
    return { status: 'installed', type: databaseType }
  })
}
