import { describe, expect, it } from 'vitest';
import { sized } from '../support/deep.js';
import { LimiterSchedule } from './support/schedules.js';

/** How many schedules, and which is the first: `SLUICE_SCHEDULES=200000 SLUICE_SEED=1`. */
const COUNT = Number(process.env['SLUICE_SCHEDULES'] ?? sized(100, 20_000));
const FIRST = Number(process.env['SLUICE_SEED'] ?? 1);

/** Schedules that were broken once. */
const REGRESSIONS = [
  ...[79, 153, 184, 235, 246, 281, 282, 302, 321, 375, 803, 1038063, 2015268],
  ...[7019589, 7073376, 8020210, 8070821, 8071938, 210004366, 210009651, 210010949],
];
/** The same, of those with shared slots. */
const SLOT_REGRESSIONS = [179, 30000506, 30001016, 30002587, 40002681, 40005545, 40005922, 40005926, 80040490];

function faultsOf(seed: number, mostSlots: number): readonly string[] {
  const { faults, log } = new LimiterSchedule(seed, mostSlots).run();
  return faults.length === 0 ? [] : [...faults, ...log];
}

describe.each([
  ['limiters on one store, in virtual time', 0, REGRESSIONS],
  ['limiters on one store that share slots as well, in virtual time', 1, SLOT_REGRESSIONS],
  ['limiters on one store that share slots, of which some jobs take two, in virtual time', 2, [120017676, 230021285, 250014814]],
] as const)('%s', (_, mostSlots, regressions) => {
  it('settle each job once, exceed no limit, spend no credit after its end, give the rest back, and leave no timer', {
    timeout: 3_600_000,
  }, () => {
    const broken: string[] = [];
    for (let seed = FIRST; seed < FIRST + COUNT && broken.length < 10; seed++) {
      const [fault] = faultsOf(seed, mostSlots);
      if (fault !== undefined) broken.push(fault);
    }
    expect(broken).toEqual([]);
  });

  it.each(regressions)('are right in schedule %i', (seed) => {
    expect(faultsOf(seed, mostSlots)).toEqual([]);
  });
});
