import { sized } from '../support/deep.js';

/** When the heap is looked at: after so many items, or so many distinct keys. */
export const MARKS = {
  items: [sized(5000, 100_000), sized(10_000, 500_000), sized(30_000, 1_000_000)],
  keys: [10_000, sized(15_000, 50_000), sized(25_000, 100_000)],
};

/** What is not measured, and why. */
export const HELD: Readonly<Record<string, string>> = {
  hedge: 'makes one call',
  policy: 'makes one call',
  settleAll: 'holds the list that it was given until it has answered',
  createIntake: 'its producers are promises, all of which wait: a million of them are a million promises',
  toStore: 'never ends, and holds one value',
};
