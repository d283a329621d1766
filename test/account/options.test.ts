import { expect, it } from 'vitest';
import { createAccount, createLimiter } from '../../operators/index.js';

/** The options that an error lists. */
function known(make: (options: object) => unknown): string[] {
  try {
    make({ zzz: 1 });
  } catch (error) {
    return (/Known options: (.*)\.$/.exec((error as Error).message)?.[1] ?? '').split(', ');
  }
  return [];
}

it('an account takes every option of a limiter that plain data does not stand for', () => {
  const limiters = known(createLimiter);
  expect(limiters.length).toBeGreaterThan(10);
  const missing = limiters.filter((name) => !known(createAccount).includes(name));
  expect(missing.toSorted()).toEqual(['queue', 'rates']);
});
