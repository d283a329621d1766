import { expect, it } from 'vitest';
import { counted, formatCount, formatMs, formatShare, wrapped } from '../../src/cli/format.js';

it('formats numbers for people', () => {
  expect([0, 999, 1000, 1_234_567].map(formatCount)).toEqual(['0', '999', '1,000', '1,234,567']);
  expect([undefined, 0.4, 9999, 10_000].map(formatMs)).toEqual(['-', '0 ms', '9,999 ms', '10.0 s']);
  expect(formatShare(0.125)).toBe('13 %');
  expect([0, 1, 1000].map((count) => counted(count, 'call'))).toEqual(['0 calls', '1 call', '1,000 calls']);
  expect(counted(2, 'retry', 'retries')).toBe('2 retries');
});

it('wraps lines between words, and leaves longer words whole', () => {
  expect(wrapped('rows: 5 done\n  3 x the answer is not JSON\n/a/long/path/that/has/no/words end', 16)).toBe(
    'rows: 5 done\n  3 x the answer\n  is not JSON\n/a/long/path/that/has/no/words\n  end',
  );
  expect(wrapped('rows: 5 done', Infinity)).toBe('rows: 5 done');
});
