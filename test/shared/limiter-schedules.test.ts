import { describe, expect, it } from 'vitest';
import { sized } from '../support/deep.js';
import { LimiterSchedule } from './support/schedules.js';

/** How many schedules, and which is the first: `SLUICE_SCHEDULES=200000 SLUICE_SEED=1`. */
const COUNT = Number(process.env['SLUICE_SCHEDULES'] ?? sized(200, 20_000));
const FIRST = Number(process.env['SLUICE_SEED'] ?? 1);

/** Schedules that were broken once. */
const REGRESSIONS = [79, 153, 184, 235, 246, 281, 282, 302, 321, 375, 803, 1038063, 2015268];

function faultsOf(seed: number): readonly string[] {
  const { faults, log } = new LimiterSchedule(seed).run();
  return faults.length === 0 ? [] : [...faults, ...log];
}

describe('limiters on one store, in virtual time', () => {
  it('settle each job once, exceed no window, spend no credit after its end, give the rest back, and leave no timer', {
    timeout: 3_600_000,
  }, () => {
    const broken: string[] = [];
    for (let seed = FIRST; seed < FIRST + COUNT && broken.length < 10; seed++) {
      const [fault] = faultsOf(seed);
      if (fault !== undefined) broken.push(fault);
    }
    expect(broken).toEqual([]);
  });

  it.each(REGRESSIONS)('are right in schedule %i', (seed) => {
    expect(faultsOf(seed)).toEqual([]);
  });
});
