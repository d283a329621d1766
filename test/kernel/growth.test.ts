import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { stepsOf } from '../support/steps.js';
import { ITEMS, KINDS } from './growth.scenarios.js';

/** A hundred times as many items, or ten thousand times as many keys: whatever walks them all takes far more steps for each. */
describe('steps for each item', () => {
  let steps: Readonly<Record<string, number>>;
  const perItem = (name: string): number => steps[name]! / (name.includes('few') && !name.includes('keys') ? ITEMS.few : ITEMS.many);

  beforeAll(async () => {
    steps = await stepsOf(join(import.meta.dirname, 'growth.scenarios.ts'));
  }, 60_000);

  it('a ring: as many for the last of a long queue as for that of a short one, where an array moves all that wait', () => {
    expect(perItem('ring, few')).toBeGreaterThan(0);
    expect(perItem('ring, many')).toBeLessThan(2 * perItem('ring, few'));
  });

  it('a heap: one more for every four times as many, where a sorted array moves all that come later', () => {
    expect(perItem('heap, few')).toBeGreaterThan(0);
    // log4 of 1,000 is 5, of 100,000 it is 8.3.
    expect(perItem('heap, many')).toBeLessThan(2.5 * perItem('heap, few'));
  });

  it('a sliding window: as many with a hundred thousand entries as with a thousand, however many the answer is away', () => {
    expect(perItem('window, few')).toBeGreaterThan(0);
    expect(perItem('window, many')).toBeLessThan(2 * perItem('window, few'));
  });

  it('lanes of mixed priority: as many for each of a hundred thousand as for each of a thousand', () => {
    expect(perItem('drained, few')).toBeGreaterThan(0);
    expect(perItem('drained, many')).toBeLessThan(2 * perItem('drained, few'));
  });

  it.each(KINDS)('a grant under %s: about as many with 100,000 keys as with ten', (kind) => {
    expect(perItem(`${kind}, few keys`)).toBeGreaterThan(0);
    expect(perItem(`${kind}, many keys`)).toBeLessThan(6 * perItem(`${kind}, few keys`));
  });
});
