import t from 'tap'
import { execution } from '../../schemas/workflows/execution.ts'
import { RunningTasks } from '../../workers/workflows/running-tasks.ts'

const turn = { attempt: 1, round: 0, generation: 0 }

function running() {
  const looked: string[] = []
  return { tasks: new RunningTasks((executionId) => looked.push(executionId)), looked }
}

t.test('a cancel is heard by what runs, and by what begins on the state of a moment before', async (t) => {
  const { tasks, looked } = running()
  tasks.tell('a')
  t.same(looked, [], 'nothing runs')
  tasks.begin('b', 'run', turn)
  t.same(looked, [], 'nobody spoke of it')
  tasks.begin('a', 'run', turn)
  t.same(looked, ['a'])
  tasks.tell('b')
  t.same(looked, ['a', 'b'])
})

t.test('what was said while the bus was away is asked for', async (t) => {
  const { tasks, looked } = running()
  const { end } = tasks.begin('a', 'run', turn)
  tasks.begin('b', 'run', turn)
  end()
  tasks.tellMissed()
  t.same(looked, ['b'])
  tasks.begin('c', 'run', turn)
  t.same(looked, ['b', 'c'], 'also for what was about to begin')
})

t.test('a state that was read before a task began does not stop it', async (t) => {
  const { tasks } = running()
  const first = tasks.begin('a', 'first', turn)
  const { begun } = tasks
  const second = tasks.begin('a', 'second', turn)
  tasks.stopUnwanted('a', execution.initial, begun)
  t.same([first.signal.aborted, second.signal.aborted], [true, false])
  tasks.stopUnwanted('a', execution.initial)
  t.equal(second.signal.aborted, true)
})
