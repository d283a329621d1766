import { asapScheduler, asyncScheduler, interval } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';

describe('virtualTime', () => {
  it('moves time by hand and returns what the function returns', () => {
    const before = Date.now();
    const times = virtualTime(({ advance, now, pending }) => {
      const seen: number[] = [];
      const subscription = interval(1000).subscribe(() => seen.push(asyncScheduler.now()));
      expect(pending()).toBe(1);
      advance(999);
      expect(seen).toEqual([]);
      advance(1);
      advance(1500);
      subscription.unsubscribe();
      return [...seen, now()];
    });
    expect(times).toEqual([1000, 2000, 2500]);
    expect(asyncScheduler.now()).toBeGreaterThanOrEqual(before);
  });

  it('runs everything there is on flush, also what is added meanwhile', () => {
    const seen = virtualTime(({ flush, now }) => {
      const order: string[] = [];
      asyncScheduler.schedule(() => {
        order.push(`timer at ${String(now())}`);
        asapScheduler.schedule(() => order.push(`asap at ${String(now())}`));
      }, 70);
      flush();
      return order;
    });
    expect(seen).toEqual(['timer at 70', 'asap at 70']);
  });

  it('refuses an action left behind', () => {
    expect(() => {
      virtualTime(({ advance }) => {
        asyncScheduler.schedule(() => undefined, 10);
        advance(3);
      });
    }).toThrow('1 scheduler action(s) left behind at 3 ms of virtual time');
  });

  it('passes on what the function throws, and leaves rxjs on the real clock', () => {
    const fault = new Error('mine');
    expect(() =>
      virtualTime(() => {
        throw fault;
      }),
    ).toThrow(fault);
    expect(asyncScheduler.now()).toBeGreaterThan(1e12);
  });
});
