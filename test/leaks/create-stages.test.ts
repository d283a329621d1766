import { NEVER, of, throwError } from 'rxjs';
import { expect, it } from 'vitest';
import { leakCheck } from '../../marbles/leak-check.js';
import { createLimiter } from '../../operators/index.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import { CountingScheduler } from '../support/counting-scheduler.js';

const RUNS = 500;

it('thousands of runs that completed, failed, were too late, or left in the middle leave nothing', { timeout: 60_000 }, () => {
  const clock = new CountingScheduler();
  const limiter = createLimiter({ concurrency: 5, scheduler: clock });
  const answer = (item: string) => {
    if (item.startsWith('bad')) return throwError(() => Object.assign(new Error('bad'), { status: 503 }));
    return item.startsWith('never') ? NEVER : of(item);
  };
  const stages = createStages(
    [
      { name: 'cut', local: true, expands: true, work: (text: string) => [`${text}1`, `${text}2`, 'good'] },
      { name: 'ask', concurrency: 3, deadlineMs: 5_000, work: (item, { signal }) => (signal.aborted ? 'late' : answer(item)) },
      { name: 'more', concurrency: 2, scope: 'perBatch', steps: (item, { request }) => request(() => answer(item)) },
    ],
    { limiter, batches: { concurrency: 20 }, scheduler: clock },
  );
  const leaks = leakCheck({ scheduler: clock, holders: { limiter } });
  try {
    for (let n = 0; n < RUNS; n += 5) {
      const left = ['never', 'good', 'bad'].map((text) => stages.run([text, 'never', 'never']).subscribe());
      stages.run(['good', 'bad']).subscribe();
      // Given up by its deadline.
      stages.run(['never']).subscribe();
      clock.maxFrames = clock.frame + 20;
      clock.flush();
      for (const each of left) each.unsubscribe();
      clock.maxFrames = Infinity;
      clock.flush();
    }
    expect(leaks.left()).toEqual([]);
    expect(stages.snapshot()).toMatchObject({
      documents: { queued: 0, executing: 0 },
      stages: { ask: { admitted: 0, executing: 0, queued: 0 }, more: { admitted: 0, executing: 0, queued: 0 } },
    });
    expect(stages.snapshot().documents.failed).toBeGreaterThan(RUNS / 5);
  } finally {
    leaks[Symbol.dispose]();
  }
});
