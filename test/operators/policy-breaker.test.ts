import fc from 'fast-check';
import type { Observable, Subscription } from 'rxjs';
import { mergeMap, NEVER, of, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Breaker, BreakerOptions, PolicyOptions } from '../../operators/index.js';
import { createBreaker, createLimiter, hedging, lanes, perMinute, policy, retryFailed } from '../../operators/index.js';
import { createModelCaller } from '../../src/index.js';

const down = Object.assign(new Error('status 503'), { status: 503 });

/** A backend that takes 5 ms, and fails while `isDown`. */
function backend(isDown: () => boolean) {
  const log = { sent: 0, inFlight: 0, most: 0 };
  const call = (): Observable<string> => {
    log.sent++;
    log.most = Math.max(log.most, ++log.inFlight);
    return timer(5).pipe(
      mergeMap(() => {
        log.inFlight--;
        return isDown() ? throwError(() => down) : of('answer');
      }),
    );
  };
  return { log, call };
}

type Ends = Record<string, number>;

/** Counts how calls end, and when the last one did. */
function tally(now: () => number) {
  const ends: Ends = {};
  const seen = { lastAt: 0, firstAnswerAt: Infinity };
  const watch = (result: Observable<unknown>): Subscription => {
    const end = (how: string) => {
      ends[how] = (ends[how] ?? 0) + 1;
      seen.lastAt = now();
    };
    return result.subscribe({
      error: (error: { code?: string; message: string }) => {
        end(error.code ?? error.message);
      },
      complete: () => {
        seen.firstAnswerAt = Math.min(seen.firstAnswerAt, now());
        end('ok');
      },
    });
  };
  return { ends, seen, watch };
}

/** Only what a breaker promises in its type. */
function publicOnly(breaker: Breaker): Breaker {
  return {
    get state() {
      return breaker.state;
    },
    run: ((work: never) => breaker.run(work)) as Breaker['run'],
    runAsync: ((work: never) => breaker.runAsync(work)) as Breaker['runAsync'],
    snapshot: () => breaker.snapshot(),
    save: () => breaker.save(),
    trip: () => {
      breaker.trip();
    },
    reset: () => {
      breaker.reset();
    },
  };
}

const inARow = (options: BreakerOptions = {}): Breaker => createBreaker({ opens: { inARow: 5 }, ...options });
const retry = retryFailed({ delayMs: 50, jitter: 'none' });

describe('a dead backend behind a queue of 500', () => {
  const ways: Readonly<
    Record<string, { readonly options: Partial<PolicyOptions>; readonly most: number; readonly breaker: () => Breaker }>
  > = {
    'without retries': { options: {}, most: 8, breaker: inARow },
    'with retries': { options: { retry }, most: 16, breaker: inARow },
    'a breaker of another kind': { options: { retry }, most: 16, breaker: () => publicOnly(inARow()) },
  };

  it.each(Object.entries(ways))(
    'gets a handful of requests, and the last caller is told at once: %s',
    (_name, { options, most, breaker }) => {
      virtualTime(({ now, advance }) => {
        const { log, call } = backend(() => true);
        const limiter = createLimiter({ concurrency: 4, rates: [perMinute('requests', 6_000_000)] });
        const guard = breaker();
        const careful = policy({ limiter, breaker: guard, ...options });
        const { ends, seen, watch } = tally(now);
        let openedAt = Infinity;
        for (let i = 0; i < 500; i++) watch(careful(call));
        for (let ms = 0; ms < 1000; ms++) {
          advance(1);
          if (guard.state === 'open') openedAt = Math.min(openedAt, now());
        }
        expect(log.sent).toBeLessThanOrEqual(most);
        expect(Object.values(ends).reduce((a, b) => a + b, 0)).toBe(500);
        expect(seen.lastAt - openedAt).toBeLessThanOrEqual(100);
        expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
        guard.reset();
      });
    },
  );

  it.each(['plain', 'hedged'])('the same through a model caller: %s', (how) => {
    virtualTime(({ now, advance }) => {
      const { log, call } = backend(() => true);
      const models = createModelCaller({
        call: (_request: string) => call(),
        concurrency: 4,
        breaker: createBreaker({ opens: { inARow: 5 }, openMs: 60_000 }),
        ...(how === 'hedged' && { hedge: hedging({ delayMs: 1000, lanes: ['background'] }) }),
      });
      const { ends, watch } = tally(now);
      for (let i = 0; i < 500; i++) watch(models.call(String(i)));
      advance(1000);
      expect(log.sent).toBeLessThanOrEqual(16);
      expect(Object.values(ends).reduce((a, b) => a + b, 0)).toBe(500);
      expect(ends['FLOW_BREAKER_OPEN']).toBeGreaterThan(480);
      expect(models.snapshot()).toMatchObject({ executing: 0, queued: 0 });
      models.close();
    });
  });

  it.each([1, 3])('with `wait` every call is answered once it is back, by way of %i probes at a time', (probes) => {
    virtualTime(({ now, advance }) => {
      const { log, call } = backend(() => now() < 9000);
      const limiter = createLimiter({ concurrency: 4, maxQueued: 500 });
      const careful = policy({ limiter, breaker: inARow({ openMs: 2000, closes: { probes, share: 0.3 } }), whenOpen: 'wait', retry });
      const { ends, watch } = tally(now);
      for (let i = 0; i < 500; i++) watch(careful(call));
      advance(100);
      expect(log.sent).toBeLessThanOrEqual(8);
      expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
      // Others of the limiter go on meanwhile, and newcomers of the policy wait as well.
      watch(limiter.run(() => of('of another')));
      for (let i = 0; i < 10; i++) watch(careful(call));
      expect(ends).toEqual({ ok: 1 });
      advance(20_000);
      expect(ends['ok']).toBeGreaterThan(500);
      expect(Object.keys(ends).sort()).toEqual(ends['ok'] === 511 ? ['ok'] : ['ok', 'status 503']);
      expect(log.most).toBeLessThanOrEqual(4);
    });
  });

  it('with `wait` a deadline ends the wait', () => {
    virtualTime(({ now, advance }) => {
      const breaker = createBreaker();
      breaker.trip();
      const careful = policy({ breaker, whenOpen: 'wait', deadlineMs: 300 });
      const { ends, watch } = tally(now);
      watch(careful(() => of(1)));
      const left = watch(careful(() => of(1)));
      left.unsubscribe();
      advance(300);
      expect(ends).toEqual({ FLOW_DEADLINE: 1 });
    });
  });
});

it('a backend that is back is found within a second: `openMs` 10 s, back after 9 s, a call every 100 ms', () => {
  virtualTime(({ now, advance }) => {
    const { call } = backend(() => now() < 9000);
    const careful = policy({ limiter: createLimiter({ concurrency: 4 }), breaker: inARow({ openMs: 10_000 }), retry });
    const { seen, watch } = tally(now);
    for (let i = 0; i < 500; i++) watch(careful(call));
    for (let i = 0; i < 200; i++) {
      advance(100);
      watch(careful(call));
    }
    advance(1000);
    expect(seen.firstAnswerAt).toBeLessThanOrEqual(11_000);
  });
});

it('a backend that fails one call in twenty loses none', () => {
  virtualTime(({ now, flush }) => {
    let calls = 0;
    const { call } = backend(() => ++calls % 20 === 0);
    const careful = policy({ limiter: createLimiter({ concurrency: 4 }), breaker: createBreaker(), retry });
    const { ends, watch } = tally(now);
    for (let i = 0; i < 1000; i++) watch(careful(call));
    flush();
    expect(ends).toEqual({ ok: 1000 });
  });
});

describe('an attempt that the breaker refuses', () => {
  it('costs neither a permit nor a rate, nor an attempt', () => {
    virtualTime(({ now, advance }) => {
      const limiter = createLimiter({ concurrency: 2, rates: [perMinute('requests', 60, { burst: 10 })], headroom: 1 });
      const breaker = createBreaker({ opens: { inARow: 1 }, openMs: 1000 });
      const told: number[] = [];
      const careful = policy({ limiter, breaker, fallback: (_error, { attempts }) => of(told.push(attempts)) });
      breaker.run(() => throwError(() => down)).subscribe({ error: () => undefined });
      advance(1000);
      const { watch } = tally(now);
      const probe = watch(careful(() => NEVER));
      watch(careful(() => of(1)));
      expect(told).toEqual([0]);
      expect(limiter.snapshot()).toMatchObject({ executing: 1, requests: 9 });
      probe.unsubscribe();
    });
  });

  it('leaves alone who uses the limiter without this breaker', () => {
    virtualTime(({ now, flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const { call } = backend(() => true);
      const { call: healthy } = backend(() => false);
      const [bad, good] = [policy({ limiter, breaker: createBreaker({ opens: { inARow: 2 } }) }), policy({ limiter })];
      const [broken, fine] = [tally(now), tally(now)];
      for (let i = 0; i < 50; i++) {
        broken.watch(bad(call));
        fine.watch(good(healthy));
      }
      flush();
      expect(fine.ends).toEqual({ ok: 50 });
      expect(broken.ends).toEqual({ 'status 503': 2, FLOW_BREAKER_OPEN: 48 });
    });
  });

  it('keeps the urgent lane in front when the circuit has closed', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 1, queue: lanes([{ name: 'user' }, { name: 'bulk' }]) });
      const breaker = createBreaker();
      const careful = policy({ limiter, breaker, whenOpen: 'wait' });
      const order: string[] = [];
      breaker.trip();
      const add = (lane: string, i: number) =>
        careful(
          () => {
            order.push(lane);
            return timer(5);
          },
          { job: { lane, id: `${lane}${String(i)}` } },
        ).subscribe();
      for (let i = 0; i < 100; i++) add('bulk', i);
      for (let i = 0; i < 3; i++) add('user', i);
      breaker.reset();
      advance(1000);
      expect(order).toHaveLength(103);
      expect(order.slice(0, 4).filter((lane) => lane === 'user')).toHaveLength(3);
    });
  });
});

it('whatever happens, each call ends once, only probes go while it is half open, and nothing is left behind', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('call' as const), n: fc.integer({ min: 1, max: 5 }) }),
    fc.record({ do: fc.constant('wait' as const), n: fc.integer({ min: 1, max: 80 }) }),
    fc.record({
      do: fc.constantFrom('down' as const, 'up' as const, 'trip' as const, 'reset' as const, 'leave' as const),
      n: fc.constant(1),
    }),
  );
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 3, maxLength: 40 }),
      fc.constantFrom('fail' as const, 'wait' as const),
      fc.boolean(),
      (steps, whenOpen, retries) => {
        virtualTime(({ now, advance }) => {
          let isDown = false;
          const { log, call } = backend(() => isDown);
          const limiter = createLimiter({ concurrency: 2 });
          const breaker = createBreaker({ opens: { inARow: 2 }, openMs: 40 });
          const careful = policy({ limiter, breaker, whenOpen, deadlineMs: 2000, ...(retries && { retry }) });
          const { ends, watch } = tally(now);
          const calls: { readonly call: { unsubscribe(): void; readonly closed: boolean } }[] = [];
          let left = 0;
          const ended = (): number => Object.values(ends).reduce((sum, n) => sum + n, 0);
          for (const { do: what, n } of steps) {
            if (what === 'call') for (let i = 0; i < n; i++) calls.push({ call: watch(careful(call)) });
            else if (what === 'wait') {
              const before = log.sent;
              const { state, retryAfterMs } = breaker.snapshot();
              advance(n);
              // Nothing is sent while it is open, and one probe at a time after that. A probe under way may end well, and close it.
              if (state === 'open' && retryAfterMs > n) expect(log.sent).toBe(before);
              else if (breaker.state === 'halfOpen') expect(breaker.snapshot().probing).toBeLessThanOrEqual(1);
            } else if (what === 'trip') breaker.trip();
            else if (what === 'reset') breaker.reset();
            else if (what === 'leave') {
              const open = calls.find((each) => !each.call.closed);
              open?.call.unsubscribe();
              if (open) left++;
            } else isDown = what === 'down';
          }
          breaker.reset();
          isDown = false;
          advance(5000);
          expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
          expect(ended()).toBe(calls.length - left);
          expect(breaker.snapshot().probing).toBe(0);
        });
      },
    ),
    { numRuns: 60 },
  );
});
