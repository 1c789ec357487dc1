import t from 'tap'
import { Unavailable } from '../../schemas/failure.ts'
import { initdbFailure } from '../../workers/provisioning/local/members.ts'

const removing = 'initdb: removing data directory "/data.new"'

t.test('an initdb that was cut off is begun again, one that refuses is not', async (t) => {
  for (const [again, ended, complaint] of [
    [true, 'SIGKILL', ''],
    [true, 1, `child process was terminated by signal 9: Killed\n${removing}`],
    [true, 1, `Killed\nchild process exited with exit code 137\n${removing}`],
    [
      false,
      1,
      `FATAL:  could not write to file: No space left on device\nchild process exited with exit code 1\n${removing}`,
    ],
    [false, 1, 'initdb: error: invalid locale name "nowhere"'],
  ] as const) {
    t.equal(initdbFailure({ ended, complaint }) instanceof Unavailable, again, `${ended}: ${complaint.slice(0, 60)}`)
  }
})
