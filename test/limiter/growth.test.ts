import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { stepsOf } from '../support/steps.js';
import { ITEMS } from './growth.scenarios.js';

/** Fifty times as many that wait: whatever looks at all of them takes far more steps for each. */
describe('steps for each job', () => {
  let steps: Readonly<Record<string, number>>;

  beforeAll(async () => {
    steps = await stepsOf(join(import.meta.dirname, 'growth.scenarios.ts'));
  }, 60_000);

  it.each([
    ['whose deadline comes', 'expired'],
    ['that is granted before its deadline', 'granted'],
    ['that was given up while its work ran', 'abandoned'],
    ['that waits under a key of its own while it holds a lease', 'nested'],
  ])('%s: about as many when many wait as when few do', (_, name) => {
    const [few, many] = [steps[`${name}, few`]! / ITEMS.few, steps[`${name}, many`]! / ITEMS.many];
    expect(few).toBeGreaterThan(0);
    // A heap takes one more for every four times as many: 5 for 1,000, 8 for 50,000.
    expect(many).toBeLessThan(2 * few);
  });
});
