import t from 'tap'
import { StatementCosts } from '../../gateways/data/statement-costs.ts'

function measured(...samplesMs: readonly number[]): StatementCosts {
  const costs = new StatementCosts()
  for (const ms of samplesMs) costs.note('s', ms)
  return costs
}

t.test('a statement that was never run is as heavy as expected', async (t) => {
  t.equal(measured().weightOf('s', 'cheap'), 'cheap')
  t.equal(measured().weightOf('s', 'heavy'), 'heavy')
})

t.test('slow first runs, while everything is cold, change nothing; very slow ones do', async (t) => {
  t.equal(measured(8).weightOf('s', 'cheap'), 'cheap')
  t.equal(measured(8, ...Array.from({ length: 12 }, () => 0.1)).weightOf('s', 'cheap'), 'cheap')
  t.equal(measured(50).weightOf('s', 'cheap'), 'heavy')
})

t.test('what was measured counts more than what was expected', async (t) => {
  const often = (ms: number) => measured(...Array.from({ length: 20 }, () => ms))
  t.equal(often(0.1).weightOf('s', 'heavy'), 'cheap')
  t.equal(often(0.8).weightOf('s', 'heavy'), 'medium')
  t.equal(often(5).weightOf('s', 'cheap'), 'heavy')
})

t.test('single waits for a busy processor make nothing heavy', async (t) => {
  const samples = Array.from({ length: 50 }, (_, index) => (index % 10 === 9 ? 15 : 0.2))
  t.equal(measured(...samples).weightOf('s', 'cheap') === 'heavy', false)
})
