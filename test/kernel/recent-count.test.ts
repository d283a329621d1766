/* oxlint-disable no-restricted-imports -- the parts of a shared limit are not exported */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RecentCount } from '../../operators/kernel/credit/recent-count.js';

/** What a count of 100 ms says after each of these times. */
function counted(times: readonly number[], count = new RecentCount(100)): number[] {
  return times.map((at) => {
    count.add(at);
    return count.most;
  });
}

describe('RecentCount', () => {
  it('counts nothing before the first event', () => {
    expect(new RecentCount(100).most).toBe(0);
  });

  it.each([
    ['counts all events of a span that begins with the first of them', [0, 50, 99], [1, 2, 3]],
    ['begins a new span when the first event is as old as a span', [0, 50, 99, 100], [1, 2, 3, 3]],
    ['remembers the span before while the new one has fewer events', [0, 10, 100, 110, 120], [1, 2, 2, 2, 3]],
    ['remembers a span until two of them have passed', [0, 10, 199], [1, 2, 2]],
    ['forgets a span that is two spans old', [0, 10, 200], [1, 2, 1]],
    ['forgets the count before a pause, and begins anew', [0, 10, 20, 1000, 1001], [1, 2, 3, 1, 2]],
    ['forgets a busy span after the next one', [0, 1, 2, 100, 200, 201], [1, 2, 3, 3, 1, 2]],
    ['counts events before time 0', [-500, -450, -400, -399], [1, 2, 2, 2]],
  ])('%s', (_, times, most) => {
    expect(counted(times)).toEqual(most);
  });

  it('has the larger count of the present span and the one before, whatever the times', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), fc.array(fc.nat({ max: 80 }), { maxLength: 60, size: 'max' }), (spanMs, waits) => {
        const count = new RecentCount(spanMs);
        // Each span begins with the first event that the last one does not contain.
        const spans: { from: number; events: number }[] = [];
        let at = 0;
        for (const wait of waits) {
          at += wait;
          const last = spans.at(-1);
          if (last && at < last.from + spanMs) last.events++;
          else spans.push({ from: at, events: 1 });
          count.add(at);
          const [before, now] = [spans.at(-2), spans.at(-1)];
          const isNear = before !== undefined && now !== undefined && now.from < before.from + 2 * spanMs;
          expect(count.most).toBe(Math.max(now?.events ?? 0, isNear ? before.events : 0));
        }
      }),
    );
  });
});
