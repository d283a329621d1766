import { config, defer, from, mergeMap, NEVER, of, throwError, timer } from 'rxjs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { leakCheck } from '../../marbles/leak-check.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { AdaptiveLimitOptions, FlowEvent, Limiter } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  adaptiveLimit,
  BreakerOpenError,
  batchMap,
  bulkheadMap,
  CallbackError,
  childOf,
  createLimiter,
  perMinute,
  RateLimitError,
  rateLimit,
} from '../../operators/index.js';
import type { Outcome } from '../../operators/options/permits.js';
import { unstamped } from '../support/events.js';
import { runOverloaded, unsettled } from '../support/overloaded-backend.js';

const status = (code: number): Error => Object.assign(new Error(`status ${code}`), { status: code });
const refused = status(429);

/** So many leases at once; gives them back after `tookMs`, each with the same outcome. */
function burst(limiter: Limiter, count: number, pass: (ms: number) => void, outcome: Outcome = 'ok', error?: unknown, tookMs = 100): void {
  const leases = Array.from({ length: count }, () => limiter.tryAcquire());
  pass(tookMs);
  for (const lease of leases) lease?.release(outcome, error);
}

/** Full bursts that go well, until the limit is so high. */
function growTo(limiter: Limiter, limit: number, pass: (ms: number) => void): void {
  for (let i = 0; i < 100 && limiter.concurrency < limit; i++) burst(limiter, limiter.concurrency, pass);
}

describe('the limit', () => {
  it('is set at once, and nothing else of the limiter is', () => {
    const events: FlowEvent[] = [];
    const limiter = createLimiter({
      concurrency: 50,
      rates: [perMinute('requests', 600, { burst: 10 }), perMinute('tokens', 6000, { burst: 100 })],
      headroom: 1,
      onEvent: unstamped((event) => events.push(event)),
    });
    adaptiveLimit(limiter);
    expect(limiter.concurrency).toBe(4);
    expect(events).toEqual([{ type: 'limitChanged', operator: 'createLimiter', concurrency: 4 }]);
    expect(limiter.tokenCapacity).toBe(100);
    expect(limiter.requestCapacity).toBe(10);
  });

  it.each([
    [{}, 4],
    [{ max: 2 }, 2],
    [{ min: 10 }, 10],
    [{ min: 3, max: 3 }, 3],
    [{ min: 1000, max: Infinity }, 1000],
  ] satisfies [AdaptiveLimitOptions, number][])('begins, under %o, at %d', (options, initial) => {
    const limiter = createLimiter();
    adaptiveLimit(limiter, options);
    expect(limiter.concurrency).toBe(initial);
  });

  it('goes up with good calls and down with refused ones, and says so in the events of the limiter', () => {
    virtualTime(({ advance }) => {
      const limits: number[] = [];
      const limiter = createLimiter({ onEvent: (event) => event.type === 'limitChanged' && limits.push(event.concurrency) });
      adaptiveLimit(limiter);
      growTo(limiter, 6, advance);
      burst(limiter, 4, advance, 'error', refused);
      expect(limits).toEqual([4, 5, 6, 4]);
    });
  });

  it('grants waiting jobs at once when it goes up', () => {
    virtualTime(({ advance, flush }) => {
      const limiter = createLimiter();
      adaptiveLimit(limiter);
      let most = 0;
      from([1, 2, 3, 4, 5, 6, 7, 8, 9])
        .pipe(bulkheadMap(() => defer(() => ((most = Math.max(most, limiter.executing)), timer(10))), { limiter }))
        .subscribe();
      advance(10);
      expect(limiter.executing).toBe(5);
      flush();
      expect([limiter.concurrency, most]).toEqual([5, 5]);
    });
  });

  it('keeps the rates that are in force, also those set meanwhile', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      limiter.tryAcquire({ cost: { tokens: 70 } })?.release();
      adaptiveLimit(limiter);
      expect(limiter.snapshot().tokens).toBe(30);
      limiter.setLimits({ rates: [perMinute('tokens', 12_000, { burst: 200 })] });
      growTo(limiter, 5, advance);
      expect([limiter.concurrency, limiter.tokenCapacity]).toEqual([5, 200]);
    });
  });

  it('goes down one step for ten refusals of one burst', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter();
      adaptiveLimit(limiter);
      growTo(limiter, 20, advance);
      burst(limiter, 10, advance, 'error', refused);
      expect(limiter.concurrency).toBe(15);
    });
  });

  it('does not grow while it is hardly used', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter();
      adaptiveLimit(limiter);
      for (let i = 0; i < 200; i++) burst(limiter, 1, advance);
      expect(limiter.concurrency).toBe(4);
    });
  });

  it('is not moved by calls that were cancelled, never sent, or took no time', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter();
      adaptiveLimit(limiter);
      for (let i = 0; i < 20; i++) {
        burst(limiter, 4, advance, 'cancelled');
        burst(limiter, 4, advance, 'unused');
        burst(limiter, 4, advance, 'cancelled', refused);
        burst(limiter, 4, advance, 'ok', undefined, 0);
      }
      of(...Array.from({ length: 100 }, (_, i) => i))
        .pipe(rateLimit(limiter))
        .subscribe();
      expect(limiter.concurrency).toBe(4);
      advance(1);
    });
  });

  it('of a limiter below another moves that one only', () => {
    virtualTime(({ advance }) => {
      const parent = createLimiter({ concurrency: 20 });
      const limiter = childOf(parent, { concurrency: 10 });
      adaptiveLimit(limiter);
      growTo(limiter, 5, advance);
      burst(limiter, 5, advance, 'error', refused);
      expect([limiter.concurrency, parent.concurrency]).toEqual([3, 20]);
    });
  });

  it('keeps the limit as it is after its subscriber left, and leaves nothing behind', () => {
    virtualTime(({ advance, scheduler }) => {
      using leaks = leakCheck({ scheduler });
      const limiter = createLimiter();
      const adapting = adaptiveLimit(limiter);
      growTo(limiter, 5, advance);
      adapting.unsubscribe();
      burst(limiter, 5, advance);
      burst(limiter, 5, advance, 'error', refused);
      expect(limiter.concurrency).toBe(5);
      expect(leaks.left()).toEqual([]);
    });
  });

  it('is heard of no more from a limiter that is closed', async () => {
    const limiter = createLimiter();
    const adapting = adaptiveLimit(limiter);
    const lease = limiter.tryAcquire();
    limiter.close();
    lease?.release('error', refused);
    expect(limiter.concurrency).toBe(3);
    expect(adapting.closed).toBe(false);
    await limiter.drain();
    adaptiveLimit(limiter).unsubscribe();
  });
});

describe('a dropped call', () => {
  const dropped = (error: unknown, options: AdaptiveLimitOptions = {}): boolean =>
    virtualTime(({ advance }) => {
      const limiter = createLimiter();
      adaptiveLimit(limiter, options);
      burst(limiter, 1, advance, 'error', error);
      return limiter.concurrency < 4;
    });

  it.each([
    ['429', refused],
    ['503', status(503)],
    ['529', status(529)],
    ['503 as text', { statusCode: '503' }],
    ['503 behind a cause', new Error('failed', { cause: status(503) })],
    ['503 as the last of several', Object.assign(new Error('gave up'), { lastError: status(503) })],
    ['an overload told inside a stream', { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }],
    ['our own time limit', new AttemptTimeoutError('batchMap', 100)],
    ['the time limit of an SDK', Object.assign(new Error('Request timed out.'), { name: 'APIConnectionTimeoutError' })],
    ['a permit refused further down', new RateLimitError('createLimiter', 'concurrency', 5)],
  ])('is one with %s', (_what, error) => {
    expect(dropped(error)).toBe(true);
  });

  it.each([
    ['500', status(500)],
    ['502', status(502)],
    ['a 500 whose cause is a 503', Object.assign(new Error('proxy', { cause: status(503) }), { status: 500 })],
    ['a reset connection', Object.assign(new Error('reset'), { code: 'ECONNRESET' })],
    ['400', status(400)],
    ['401', status(401)],
    ['413', status(413)],
    ['an exhausted quota', Object.assign(status(429), { code: 'insufficient_quota' })],
    ['an abort', new DOMException('stopped', 'AbortError')],
    ['an open breaker', new BreakerOpenError('createBreaker', 100)],
    ['a plain error', new Error('no idea')],
    ['no error at all', undefined],
  ])('is not one with %s', (_what, error) => {
    expect(dropped(error)).toBe(false);
  });

  it('is what classify says', () => {
    const classify = () => ({ class: 'throttled' }) as const;
    expect(dropped(new Error('slow down, please'), { classify })).toBe(true);
    expect(dropped(refused, { classify: () => ({ class: 'fatal' }) })).toBe(false);
  });

  it('is one in batchMap, bulkheadMap and run: refused, or too slow', () => {
    const never = () => NEVER;
    const refuse = () => timer(10).pipe(mergeMap(() => throwError(() => refused)));
    const uses: readonly ((limiter: Limiter) => { subscribe(observer: { error: () => void }): unknown })[] = [
      (limiter) => of(1).pipe(batchMap(refuse, { limiter })),
      (limiter) => of(1).pipe(batchMap(never, { limiter, timeoutMs: 10 })),
      (limiter) => of(1).pipe(bulkheadMap(refuse, { limiter })),
      (limiter) => of(1).pipe(bulkheadMap(never, { limiter, timeoutMs: 10 })),
      (limiter) => of(1).pipe(bulkheadMap(refuse, { limiter, errors: 'propagate' })),
      (limiter) => limiter.run(refuse),
    ];
    const limits = uses.map((use) =>
      virtualTime(({ flush }) => {
        const limiter = createLimiter();
        adaptiveLimit(limiter);
        use(limiter).subscribe({ error: () => undefined });
        flush();
        return limiter.concurrency;
      }),
    );
    expect(limits).toEqual(uses.map(() => 3));
  });
});

describe('a classify of your own', () => {
  afterEach(() => {
    config.onUnhandledError = null;
    vi.useRealTimers();
  });

  it.each([
    [
      'cannot sort an error',
      {
        classify: () => {
          throw new Error('no');
        },
      },
      '`classify` threw',
    ],
    ['gives an error no class', { classify: () => ({}) as never }, '`classify` must return { class: one of throttled'],
  ] satisfies [string, AdaptiveLimitOptions, string][])(
    'that %s leaves the limit as it is, and the error is reported as RxJS reports those of observers',
    (_what, options, message) => {
      vi.useFakeTimers();
      const reported: unknown[] = [];
      config.onUnhandledError = (error) => reported.push(error);
      const limiter = createLimiter();
      adaptiveLimit(limiter, options);
      const lease = limiter.tryAcquire()!;
      const next = limiter.tryAcquire()!;
      lease.release('error', refused);
      expect(limiter.snapshot()).toMatchObject({ concurrency: 4, executing: 1 });
      vi.runAllTimers();
      expect(reported).toEqual([expect.any(CallbackError)]);
      expect((reported[0] as Error).message).toMatch(`adaptiveLimit: ${message}`);
      // It is asked again.
      next.release('error', refused);
      vi.runAllTimers();
      expect(reported).toHaveLength(2);
    },
  );
});

describe('against a backend that takes so many calls at a time', () => {
  it.each([4, 20, 50])('settles around that: %d', (takes) => {
    const run = runOverloaded(400 * takes, takes, (limiter) => adaptiveLimit(limiter));
    expect(unsettled(run, takes).filter((problem) => takes > 4 || !problem.includes('%'))).toEqual([]);
    expect(run.answered + run.refused).toBe(400 * takes);
    // A sawtooth: it keeps trying.
    const limits = run.limits.map(({ limit }) => limit);
    expect(limits.filter((limit) => limit === takes + 1).length).toBeGreaterThan(3);
    expect(run.maxInFlight).toBe(takes);
  });

  it('follows it down and up again', () => {
    const takes = (atMs: number): number => (atMs >= 20_000 && atMs < 40_000 ? 6 : 24);
    const { limits } = runOverloaded(10_000, takes, (limiter) => adaptiveLimit(limiter));
    const between = (from: number, to: number): number[] =>
      limits.filter(({ atMs }) => atMs >= from && atMs < to).map(({ limit }) => limit);
    expect(Math.max(...between(10_000, 20_000))).toBe(25);
    expect(Math.max(...between(22_000, 40_000))).toBe(7);
    expect(Math.min(...between(22_000, 40_000))).toBe(5);
    expect(Math.max(...between(50_000, 60_000))).toBe(25);
  });

  it('stays at max where the backend takes more', () => {
    const { limits, refused: none } = runOverloaded(2000, 100, (limiter) => adaptiveLimit(limiter, { max: 12 }));
    expect([none, limits.at(-1)?.limit]).toEqual([0, 12]);
  });
});
