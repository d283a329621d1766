import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Limiter, RateRule } from '../../operators/index.js';
import { createLimiter, slidingWindow, tokenBucket } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

// A clock that is set back takes nothing away and stops nothing: while jobs wait, they are granted when they would have been.

const WINDOW_MS = 60_000;
const ONE = { tokens: 1 };

/** At a time: what is done, and by how much the clock was set back just before. */
interface Step {
  readonly at: number;
  readonly backMs: number;
  readonly what: 'look' | 'try' | 'save' | 'brief' | 'nothing' | 'settle' | 'limits';
}

const kinds = ['strict', 'bucket'] as const;
const rateOf = (kind: (typeof kinds)[number], amount: number): RateRule =>
  kind === 'strict'
    ? slidingWindow({ unit: 'tokens', amount, windowMs: WINDOW_MS })
    : tokenBucket({ unit: 'tokens', amount, windowMs: WINDOW_MS, burst: amount / 2 });

const steps = (whats: readonly Step['what'][]): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.record({
      at: fc.integer({ min: 1, max: 8 * WINDOW_MS }),
      // Less than a browser rounds to cannot be told from a coarse clock.
      backMs: fc.oneof(fc.constant(0), fc.integer({ min: 1000, max: 100_000 }), fc.constant(3_600_000)),
      what: fc.constantFrom(...whats),
    }),
    { maxLength: 25 },
  );

/** The times at which jobs were granted that were always waiting, and jobs that may wait for a moment only and come between. */
function grants(kind: (typeof kinds)[number], plan: readonly Step[], isSteady: boolean): number[] {
  const scheduler = new CountingScheduler();
  const limiter: Limiter = createLimiter({ scheduler, headroom: 1, rates: [rateOf(kind, 12)] });
  const times: number[] = [];
  let ends = 0;
  const ask = (): void => {
    limiter.acquire({ cost: ONE }).subscribe({
      next: (lease) => {
        times.push(scheduler.frame);
        lease.release();
        scheduler.schedule(ask);
      },
      error: () => ends++,
    });
  };
  const held = limiter.tryAcquire({ cost: ONE });
  ask();
  ask();
  let isFast = false;
  for (const { at, backMs, what } of [...plan].sort((a, b) => a.at - b.at)) {
    scheduler.maxFrames = at;
    scheduler.flush();
    scheduler.frame = at;
    if (!isSteady) scheduler.offset -= backMs;
    if (what === 'look') limiter.snapshot();
    else if (what === 'try') expect(limiter.tryAcquire({ cost: ONE })).toBeUndefined();
    else if (what === 'save') limiter.save();
    // eslint-disable-next-line rxjs-x/no-ignored-error -- it is refused
    else if (what === 'brief')
      limiter.acquire({ cost: ONE, deadlineMs: 1000 }).subscribe({
        next: (lease) => {
          lease.release();
        },
        error: () => undefined,
      });
    else if (what === 'settle') held?.settle({ inputTokens: at % 40 });
    else if (what === 'limits') {
      isFast = !isFast;
      limiter.setLimits({ rates: [rateOf(kind, isFast ? 24 : 12)] });
    }
  }
  scheduler.maxFrames = 10 * WINDOW_MS;
  scheduler.flush();
  limiter.close();
  expect({ ends, timers: scheduler.actions.filter(({ closed }) => !closed) }).toEqual({ ends: 2, timers: [] });
  return times;
}

describe.each(kinds)('a %s rate while the clock is set back', (kind) => {
  it('grants when it would have granted', () => {
    fc.assert(
      fc.property(steps(['look', 'try', 'save', 'nothing']), (plan) => {
        expect(grants(kind, plan, false)).toEqual(grants(kind, plan, true));
      }),
      { numRuns: sized(60, 1000) },
    );
  });

  it('and loses no window to jobs, corrections and limits that set another timer', () => {
    fc.assert(
      fc.property(steps(['look', 'try', 'save', 'nothing', 'brief', 'settle', 'limits']), (plan) => {
        const times = grants(kind, plan, false);
        // The slower of the two rates at least, the faster at most.
        expect(times.length).toBeGreaterThanOrEqual(9 * 12 - 40);
        expect(times.length).toBeLessThanOrEqual(11 * 24 + 24);
      }),
      { numRuns: sized(60, 1000) },
    );
  });
});

it('takes nothing away from a strict rate when a look follows every set-back', () => {
  const plan = Array.from({ length: 9 }, (_, i): Step => ({ at: (i + 1) * 50_000, backMs: 3_600_000, what: 'look' }));
  expect(grants('strict', plan, false)).toHaveLength(grants('strict', plan, true).length);
});
