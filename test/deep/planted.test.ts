import { expect, it } from 'vitest';
import { BUGS } from '../schedules/bugs.js';
import { simulate } from '../schedules/simulate.js';

const SEEDS = {
  first: 1,
  count: 4000,
  only: ['batchMap', 'batchMapFrom', 'createBatcher', 'createLimiter'],
  mostFailures: 1,
  isQuiet: true,
} as const;

it.each(BUGS)('the schedules find $name', { timeout: 120_000 }, async ({ only = SEEDS.only, seed, ...planted }) => {
  const { problems } = await simulate(
    seed === undefined ? { ...SEEDS, only } : { first: seed, count: 1, mostFailures: 1, isQuiet: true },
    planted,
  );
  expect([...problems]).not.toEqual([]);
});
