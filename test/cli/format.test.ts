import { expect, it } from 'vitest';
import { formatCount, formatMs, formatShare } from '../../src/cli/format.js';

it('formats numbers for people', () => {
  expect([0, 999, 1000, 1_234_567].map(formatCount)).toEqual(['0', '999', '1,000', '1,234,567']);
  expect([undefined, 0.4, 9999, 10_000].map(formatMs)).toEqual(['-', '0 ms', '9,999 ms', '10.0 s']);
  expect(formatShare(0.125)).toBe('13 %');
});
