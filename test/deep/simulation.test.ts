import { expect, it } from 'vitest';
import { simulate } from '../schedules/simulate.js';

const SCHEDULES = Number(process.env['SCHEDULES'] ?? 1_000_000);
/** Where a run goes on that was done in parts. */
const FIRST = Number(process.env['FIRST'] ?? 1);

it(`settles everything once in ${SCHEDULES} schedules from ${FIRST} on`, { timeout: 7_200_000 }, async () => {
  const begun = performance.now();
  const { schedules, failures } = await simulate({ first: FIRST, count: SCHEDULES, mostFailures: 10 });
  console.log(`${schedules} schedules in ${Math.round((performance.now() - begun) / 1000)} s`);
  expect(failures.join('\n\n')).toBe('');
  expect(schedules).toBe(SCHEDULES);
});
