import type { Observable } from 'rxjs';
import { defer, from, mergeMap, of, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Limiter, PolicyOptions } from '../../operators/index.js';
import {
  batchMap,
  classifyError,
  createAccount,
  createBatcher,
  createLimiter,
  lanes,
  policy,
  retryFailed,
  robust,
} from '../../operators/index.js';

const failing = (status: number, headers: Readonly<Record<string, string>> = {}): Error =>
  Object.assign(new Error(`status ${String(status)}`), { status, headers });

/** A provider that refuses everything for so long, saying for how long or not; each answer takes 5 ms. */
function provider(now: () => number, refusesMs: number, hints: boolean) {
  const log = { sent: 0, sizes: [] as number[], answers: [] as string[] };
  const call = (name = ''): Observable<string> =>
    defer(() => {
      log.sent++;
      return timer(5).pipe(
        mergeMap(() => {
          const leftMs = refusesMs - now();
          if (leftMs > 0) return throwError(() => failing(429, hints ? { 'retry-after': String(Math.ceil(leftMs / 1000)) } : {}));
          log.answers.push(name);
          return of(name);
        }),
      );
    });
  return { log, call };
}

/** An SDK alone: everything is sent and refused after 5 ms, waits exactly as long as the hint says, and is answered 5 ms later. */
const alone = (burst: number, refusesMs: number) => ({ requests: 2 * burst, lastMs: 5 + 1000 * Math.ceil((refusesMs - 5) / 1000) + 5 });

describe.each([16, 64, 256])('a burst of %i', (burst) => {
  describe.each([1000, 5000, 30_000])('on an account that refuses for %i ms and says so', (refusesMs) => {
    it.each([16, Infinity])('is answered as by the SDK alone: %s calls at a time', (concurrency) => {
      virtualTime(({ now, flush }) => {
        const { log, call } = provider(now, refusesMs, true);
        const limiter = concurrency === Infinity ? undefined : createAccount({ concurrency });
        const careful = policy({ ...(limiter && { limiter }), retry: retryFailed({ maxShare: 0.2 }), random: () => 1 });
        let lastMs = 0;
        const errors: unknown[] = [];
        for (let i = 0; i < burst; i++) {
          careful(() => call()).subscribe({
            error: (error: unknown) => errors.push(error),
            complete: () => {
              lastMs = now();
            },
          });
        }
        flush();
        const bound = alone(burst, refusesMs);
        expect(errors).toEqual([]);
        expect(log.answers).toHaveLength(burst);
        expect(log.sent).toBeLessThanOrEqual(1.2 * bound.requests);
        expect(lastMs).toBeLessThanOrEqual(1.25 * bound.lastMs);
        limiter?.close();
      });
    });
  });
});

describe('a refusal', () => {
  it.each([true, false])('takes neither attempts nor the share of retries: hints %s', (hints) => {
    virtualTime(({ now, flush }) => {
      const events: FlowEvent[] = [];
      const { log, call } = provider(now, 3000, hints);
      const careful = policy({
        retry: retryFailed({ maxAttempts: 1, maxShare: 0.01 }),
        onEvent: (event) => events.push(event),
        random: () => 1,
      });
      for (let i = 0; i < 50; i++) careful(({ attempt }) => call(String(attempt))).subscribe();
      flush();
      expect(log.answers).toEqual(new Array(50).fill('1'));
      expect(events.flatMap((event) => (event.type === 'settled' ? [event.attempts] : []))).toEqual(new Array(50).fill(1));
      const scheduled = events.flatMap((event) => (event.type === 'retryScheduled' ? [event] : []));
      expect(new Set(scheduled.map(({ class: found, attempt }) => `${found} ${String(attempt)}`))).toEqual(new Set(['throttled 1']));
    });
  });

  it('without a word is waited out in pauses that grow, and are shared', () => {
    virtualTime(({ now, flush }) => {
      const { log, call } = provider(now, 60_000, false);
      const careful = policy({ retry: retryFailed(), random: () => 1 });
      for (let i = 0; i < 10; i++) careful(() => call()).subscribe();
      flush();
      expect(log.answers).toHaveLength(10);
      // 0.2, 0.4, … 20 s: ten calls in each of ten rounds, not a hundred of their own.
      expect(log.sent).toBeLessThanOrEqual(110);
      expect(now()).toBeLessThan(85_000);
    });
  });

  it('holds the other calls of a policy without a limiter, and a newcomer', () => {
    virtualTime(({ now, flush, advance }) => {
      const startedAt: number[] = [];
      const careful = policy({ retry: retryFailed({ jitter: 'none' }), random: () => 0 });
      careful(() => (startedAt.push(now()) === 1 ? throwError(() => failing(429, { 'retry-after': '2' })) : of(1))).subscribe();
      advance(500);
      careful(() => of(startedAt.push(now()))).subscribe();
      flush();
      expect(startedAt).toEqual([0, 2000, 2000]);
    });
  });

  it('ends the call after `maxThrottledMs`, with itself as the error; 0 makes it final', () => {
    virtualTime(({ now, flush }) => {
      const ends: [number, unknown][] = [];
      for (const maxThrottledMs of [0, 1000, 600_000]) {
        const careful = policy({ retry: retryFailed({ maxThrottledMs, delayMs: 400, maxMs: 400, jitter: 'none' }) });
        const error = failing(429);
        careful(() => throwError(() => error)).subscribe({ error: (thrown: unknown) => ends.push([now(), thrown === error]) });
      }
      flush();
      expect(ends).toEqual([
        [0, true],
        [800, true],
        [600_000, true],
      ]);
    });
  });

  it('is waited out up to a deadline that is longer than the default bound', () => {
    virtualTime(({ now, flush }) => {
      const { log, call } = provider(now, 1_200_000, true);
      policy({ retry: retryFailed(), deadlineMs: 3_600_000, random: () => 0 })(() => call()).subscribe();
      flush();
      expect(log).toMatchObject({ sent: 2, answers: [''] });
    });
  });

  it('does not outlast the deadline', () => {
    virtualTime(({ now, flush }) => {
      const ends: unknown[] = [];
      const { call } = provider(now, 60_000, true);
      policy({ retry: retryFailed(), deadlineMs: 5000 })(() => call()).subscribe({
        error: ({ code }: { code: string }) => ends.push([code, now()]),
      });
      flush();
      expect(ends).toEqual([['FLOW_DEADLINE', 5]]);
    });
  });

  it('of a service tier pauses the call alone', () => {
    virtualTime(({ now, flush }) => {
      const limiter = createLimiter({ concurrency: 4 });
      const log: string[] = [];
      const careful = policy({ limiter, classify: classifyError, retry: retryFailed({ delayMs: 1000, jitter: 'none' }) });
      let calls = 0;
      careful(() => {
        log.push(`flex at ${String(now())}`);
        return calls++ === 0 ? throwError(() => Object.assign(new Error('no capacity for flex'), { status: 429 })) : of(1);
      }).subscribe();
      careful(() => {
        log.push(`other at ${String(now())}`);
        return of(1);
      }).subscribe();
      flush();
      expect(log).toEqual(['flex at 0', 'other at 0', 'flex at 1000']);
    });
  });

  it('lets an urgent call of the pause go first', () => {
    virtualTime(({ now, advance }) => {
      const limiter = createLimiter({ concurrency: 16, queue: lanes([{ name: 'user' }, { name: 'bulk' }]) });
      const { log, call } = provider(now, 1000, true);
      const careful = policy({ limiter, retry: retryFailed(), random: () => 0 });
      for (let i = 0; i < 64; i++) careful(() => call('bulk'), { job: { lane: 'bulk' } }).subscribe();
      advance(500);
      careful(() => call('user'), { job: { lane: 'user' } }).subscribe();
      advance(5000);
      expect(log.answers[0]).toBe('user');
      expect(log.answers).toHaveLength(65);
    });
  });

  it('names the budget when that is what ends a call', () => {
    virtualTime(({ flush }) => {
      const errors: unknown[] = [];
      const careful = policy({ retry: retryFailed({ maxShare: 0.01, delayMs: 100, jitter: 'none' }) });
      for (let i = 0; i < 10; i++)
        careful(() => throwError(() => failing(503))).subscribe({ error: (error: unknown) => errors.push(error) });
      flush();
      const named = errors.filter((error) => (error as { code?: string }).code === 'FLOW_RETRY_SHARE');
      expect(named).toHaveLength(7);
      expect(named[0]).toMatchObject({ name: 'RetryShareError', maxShare: 0.01, cause: { status: 503 } });
    });
  });
});

describe('a refused batch', () => {
  const ways: Readonly<Record<string, (limiter: Limiter | undefined) => object>> = {
    'its own slots': () => ({ concurrency: 2 }),
    'a limiter': (limiter) => ({ limiter }),
  };
  it.each(Object.entries(ways).flatMap(([name, of_]) => [true, false].map((hints) => [name, hints, of_] as const)))(
    'waits and is sent again whole, with %s (hints: %s)',
    (_name, hints, rules) => {
      virtualTime(({ now, flush }) => {
        const limiter = createLimiter({ concurrency: 2 });
        const sizes: number[] = [];
        const attempts: number[] = [];
        const work = (
          items: readonly number[],
          { attempt, splitDepth }: { attempt: number; splitDepth: number },
        ): Observable<readonly number[]> => {
          sizes.push(items.length);
          attempts.push(attempt + splitDepth);
          return timer(5).pipe(
            mergeMap(() => (now() < 5000 ? throwError(() => failing(429, hints ? { 'retry-after': '2' } : {})) : of(items))),
          );
        };
        const results: string[] = [];
        from([1, 2, 3, 4, 5, 6, 7, 8])
          .pipe(
            batchMap(work, {
              maxSize: 4,
              repair: robust({ retry: { maxAttempts: 2, maxShare: 0.1 } }),
              random: () => 1,
              ...rules(limiter),
            }),
          )
          .subscribe((result) => results.push(`${result.status} ${String(result.attempts)}`));
        flush();
        expect(results).toEqual(new Array(8).fill('fulfilled 1'));
        expect(new Set(sizes)).toEqual(new Set([4]));
        expect(new Set(attempts)).toEqual(new Set([1]));
      });
    },
  );

  it('the same in a batcher', () => {
    virtualTime(({ now, flush }) => {
      const batcher = createBatcher((items: readonly number[]) => (now() < 5000 ? throwError(() => failing(429)) : of(items)), {
        repair: robust(),
        random: () => 1,
      });
      const seen: number[] = [];
      for (const item of [1, 2, 3]) batcher.load(item).subscribe((value) => seen.push(value));
      flush();
      expect(seen).toEqual([1, 2, 3]);
      batcher.close();
    });
  });
});

const longHint: Partial<PolicyOptions> = { retry: retryFailed() };
it('that asks for more than a day pauses the account for a day, and that is told', () => {
  virtualTime(() => {
    const events: FlowEvent[] = [];
    const limiter = createLimiter();
    policy({ limiter, onEvent: (event) => events.push(event), ...longHint })(() =>
      throwError(() => failing(429, { 'retry-after': '172800' })),
    ).subscribe({
      error: () => undefined,
    });
    expect(limiter.snapshot().pausedForMs).toBe(86_400_000);
    expect(events.filter(({ type }) => type === 'hintClamped')).toMatchObject([{ askedMs: 172_800_000, pauseMs: 86_400_000 }]);
    limiter.close();
  });
});
