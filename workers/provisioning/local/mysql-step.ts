import type { Step, StepWork } from '../driver.ts'
import { type MysqlInstance, openMysqlInstance } from './mysql-instance.ts'
import type { LocalPlace } from './place.ts'

/** Makes a step of an operation on an instance with MariaDB servers. */
export type MakeStep = (name: string, run: (opened: MysqlInstance, work: StepWork) => ReturnType<Step['run']>) => Step

export function mysqlSteps(place: LocalPlace): MakeStep {
  return (name, run) => ({ name, run: async (work) => run(await openMysqlInstance(place, work.instance), work) })
}
