import fc from 'fast-check';
import { mergeMap, NEVER, of, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Settled } from '../../operators/index.js';
import { createLimiter, isFlowError, lanes, perMinute, settleAll } from '../../operators/index.js';
import { sized } from '../support/deep.js';

/** A call: how long it takes, and whether it fails then. */
interface Plan {
  readonly ms: number;
  readonly fails: boolean;
}

interface Rules {
  readonly slots: number;
  /** Another job holds one of the slots for this long. */
  readonly heldMs: number;
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  readonly errors: 'settle' | 'propagate';
}

const nameOf = (error: unknown): string => (isFlowError(error) ? error.code : (error as Error).message);
const told = (settled: Settled<Plan, number>): string =>
  `${settled.status === 'fulfilled' ? String(settled.value) : nameOf(settled.reason)} (${String(settled.attempts)})`;

/** What has to come of it, and when: each call in its turn, in the slot that is free first. */
function expected(
  plans: readonly Plan[],
  { slots, heldMs, timeoutMs, deadlineMs, errors }: Rules,
): readonly [outcome: unknown, at: number] {
  const free = Array.from({ length: slots }, (_, n) => (n === 0 ? heldMs : 0));
  const calls = plans.map(({ ms, fails }) => {
    free.sort((a, b) => a - b);
    const startsAt = free[0] as number;
    const end = Math.min(startsAt + Math.min(ms, timeoutMs), deadlineMs);
    free[0] = end;
    if (startsAt >= deadlineMs) return { end: deadlineMs, result: 'FLOW_DEADLINE (0)' };
    const isLate = end === deadlineMs;
    const fault = isLate ? 'FLOW_DEADLINE' : ms > timeoutMs ? 'FLOW_ATTEMPT_TIMEOUT' : fails ? 'fault' : undefined;
    return { end, result: `${fault ?? String(ms)} (1)`, fault };
  });
  const failed = calls.filter((call) => call.result.startsWith('f') || call.result.startsWith('FLOW'));
  const first = failed.reduce((a, b) => (b.end < a.end ? b : a), failed[0] ?? { end: Infinity, result: '' });
  if (errors === 'propagate' && failed.length > 0) return [first.result.replace(/ .*/, ''), first.end];
  return [calls.map(({ result }) => result), Math.max(0, ...calls.map(({ end }) => end))];
}

describe('settleAll with a shared limiter', () => {
  it('times each call from its permit and all of them from the start, in any mode, and takes no more slots than there are', () => {
    const plan = fc.record({ ms: fc.constantFrom(10, 20, 30, 40, 400), fails: fc.constantFrom(false, false, false, true) });
    const rules = fc.record({
      slots: fc.constantFrom(1, 2, 3),
      heldMs: fc.constantFrom(0, 10, 20),
      // A timeout and a fault are never at the same time, nor anything when all is up.
      timeoutMs: fc.constantFrom(Infinity, 14),
      deadlineMs: fc.constantFrom(Infinity, 33, 71),
      errors: fc.constantFrom('settle' as const, 'propagate' as const),
    });
    fc.assert(
      fc.property(fc.array(plan, { maxLength: 12 }), rules, (plans, given) => {
        virtualTime(({ flush, now, scheduler }) => {
          const { slots, heldMs, ...options } = given;
          const limiter = createLimiter({ concurrency: slots, scheduler });
          const holder = heldMs > 0 ? limiter.tryAcquire() : undefined;
          if (holder)
            scheduler.schedule(() => {
              holder.release();
            }, heldMs);
          let running = 0;
          let most = 0;
          let seen: unknown;
          const make = ({ ms, fails }: Plan) => timer(ms).pipe(mergeMap(() => (fails ? throwError(() => new Error('fault')) : of(ms))));
          const count = (change: number): void => {
            running += change;
            most = Math.max(most, running + (now() < heldMs ? 1 : 0));
          };
          settleAll(
            plans,
            (call, { signal }) => {
              count(1);
              signal.addEventListener('abort', () => {
                count(-1);
              });
              return make(call).pipe(
                mergeMap((value) => {
                  running--;
                  return of(value);
                }),
              );
            },
            { limiter, ...options },
          ).subscribe({
            next: (results) => (seen = [results.map(told), now()]),
            error: (error: unknown) => (seen = [nameOf(error), now()]),
          });
          flush();
          expect(seen).toEqual(expected(plans, given));
          expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
          if (!plans.some(({ fails }) => fails)) expect(most).toBeLessThanOrEqual(slots);
        });
      }),
      { numRuns: sized(100, 300) },
    );
  });

  it('waits for rates as well, and counts nothing of that as the time of a call', () => {
    virtualTime(({ flush, now, scheduler }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 60)], headroom: 1, scheduler });
      const startedAt: number[] = [];
      let results: readonly string[] = [];
      settleAll(
        [1, 2, 3, 4],
        (n) => {
          startedAt.push(now());
          return n === 3 ? NEVER : timer(400).pipe(mergeMap(() => of(n)));
        },
        { limiter, timeoutMs: 500 },
      ).subscribe((all) => (results = all.map(({ status }) => status)));
      flush();
      expect(results).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
      expect(startedAt.at(-1)).toBeGreaterThanOrEqual(1000);
    });
  });

  it('leaves the queue of the limiter when the subscriber leaves', () => {
    virtualTime(({ advance, scheduler }) => {
      const limiter = createLimiter({ concurrency: 1, scheduler, queue: lanes([{ name: 'user' }, { name: 'normal' }]) });
      const holder = limiter.tryAcquire();
      let made = 0;
      const one = settleAll([1, 2, 3], () => ++made, { limiter, timeoutMs: 10, deadlineMs: 100 }).subscribe();
      advance(50);
      one.unsubscribe();
      holder?.release();
      advance(100);
      expect(made).toBe(0);
      expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    });
  });
});
