/** Of this run's random inputs; `--seed=<number>` behind the test file repeats a run. */
export const seed: number = Number(
  process.argv.find((argument) => argument.startsWith('--seed='))?.slice(7) ?? Date.now() % 2 ** 31,
)
