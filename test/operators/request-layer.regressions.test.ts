import { config, firstValueFrom, mergeMap, NEVER, Observable, of, Subject, takeUntil, throwError, timer } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent } from '../../operators/index.js';
import { batchMap, classifyError, createBreaker, createLimiter, hedge, policy, retryFailed } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';

const busy = Object.assign(new Error('status 503'), { status: 503 });
const refused = Object.assign(new Error('status 429'), { status: 429, headers: { 'retry-after': '10' } });

/** Who listens writes down what happens. */
function log(events: string[]): (event: FlowEvent) => void {
  return (event) => {
    events.push('outcome' in event ? `${event.type} ${event.outcome}` : event.type);
  };
}

/** A half-open breaker: the next call is its probe. */
function halfOpen(clock: CountingScheduler) {
  const breaker = createBreaker({ opens: { minCalls: 1 }, openMs: 10, scheduler: clock });
  breaker.run(() => throwError(() => busy)).subscribe({ error: () => undefined });
  clock.schedule(() => undefined, 10);
  clock.flush();
  expect(breaker.state).toBe('halfOpen');
  return breaker;
}

describe('a promise whose subscriber takes the answer and leaves', () => {
  type Work = (context: { readonly signal: AbortSignal }) => Promise<string>;
  const runs: readonly [string, (work: Work) => Observable<string>][] = [
    ['policy', policy({ retry: retryFailed() })],
    ['a breaker', createBreaker().run.bind(createBreaker())],
    ['a limiter', createLimiter().run.bind(createLimiter())],
    ['hedge', (work) => hedge((_index, context) => work(context))],
  ];
  it.each(runs)('does not have its signal aborted by %s: the answer may be read later', async (_name, run) => {
    let signal: AbortSignal | undefined;
    const work: Work = (context) => {
      ({ signal } = context);
      return Promise.resolve('headers first, the body later');
    };
    await firstValueFrom(run(work));
    expect(signal?.aborted).toBe(false);
  });

  it('is a call that went well: for the limiter, for the events and for the count of calls', async () => {
    const events: string[] = [];
    const outcomes: string[] = [];
    const limiter = createLimiter({ concurrency: 1 });
    limiter.onRelease(({ outcome }) => outcomes.push(outcome));
    const careful = policy({ limiter, retry: retryFailed(), onEvent: log(events) });
    await expect(firstValueFrom(careful(() => Promise.resolve('answer')))).resolves.toBe('answer');
    await expect(firstValueFrom(limiter.run(() => Promise.resolve('answer')))).resolves.toBe('answer');
    expect([events, outcomes, limiter.executing]).toEqual([
      ['accepted', 'attemptStarted', 'attemptEnded ok', 'settled fulfilled'],
      ['ok', 'ok'],
      0,
    ]);
  });
});

describe('work that makes its own consumer leave and then throws', () => {
  it.each([
    ['what does not count', new Error('mine')],
    ['what counts', busy],
  ])('%s: a probe gives its place back once, and the breaker hears of no failure', (_name, error) => {
    const clock = new CountingScheduler();
    const breaker = halfOpen(clock);
    const leaving = new Subject<void>();
    breaker
      .run(() => {
        leaving.next();
        throw error;
      })
      .pipe(takeUntil(leaving))
      .subscribe();
    const { state, probing } = breaker.snapshot();
    expect([state, probing]).toEqual(['halfOpen', 0]);
    breaker.run(() => NEVER).subscribe();
    expect(breaker.snapshot().probing).toBe(1);
  });

  it('gives its permit back as cancelled', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const outcomes: string[] = [];
    limiter.onRelease(({ outcome }) => outcomes.push(outcome));
    const leaving = new Subject<void>();
    limiter
      .run(() => {
        leaving.next();
        throw busy;
      })
      .pipe(takeUntil(leaving))
      .subscribe();
    expect([outcomes, limiter.executing]).toEqual([['cancelled'], 0]);
  });
});

describe('a breaker', () => {
  it('does not make the call of a consumer that a listener made leave', () => {
    const clock = new CountingScheduler();
    const leaving = new Subject<void>();
    const breaker = createBreaker({
      opens: { minCalls: 1 },
      openMs: 10,
      scheduler: clock,
      onEvent: (event) => {
        if (event.type === 'breakerChanged' && event.state === 'halfOpen') leaving.next();
      },
    });
    breaker.run(() => throwError(() => busy)).subscribe({ error: () => undefined });
    clock.schedule(() => undefined, 10);
    clock.flush();
    let made = 0;
    breaker
      .run(() => {
        made += 1;
        return NEVER;
      })
      .pipe(takeUntil(leaving))
      .subscribe();
    expect([made, breaker.snapshot().probing]).toEqual([0, 0]);
  });
});

describe('a call of a policy whose consumer leaves in the middle of its end', () => {
  it('at the deadline, when the signal aborts: ends once, asks no fallback and is counted once', () => {
    virtualTime(({ advance, scheduler }) => {
      const events: string[] = [];
      const queued: number[] = [];
      let asked = 0;
      const leaving = new Subject<void>();
      const careful = policy({
        deadlineMs: 10,
        retry: retryFailed(),
        scheduler,
        fallback: () => {
          asked += 1;
          return of('instead');
        },
        onEvent: (event) => {
          log(events)(event);
          if (event.type === 'accepted') queued.push(event.queued);
        },
      });
      const hang = ({ signal }: { readonly signal: AbortSignal }): Observable<never> => {
        signal.addEventListener('abort', () => {
          leaving.next();
        });
        return NEVER;
      };
      careful(hang).pipe(takeUntil(leaving)).subscribe();
      advance(20);
      expect([events, asked]).toEqual([['accepted', 'attemptStarted', 'cancelled', 'attemptEnded cancelled'], 0]);
      careful(() => of('next')).subscribe();
      expect(queued).toEqual([1, 1]);
    });
  });

  it('when the limiter tells of the pause: the attempt ends once', () => {
    const clock = new CountingScheduler();
    const events: string[] = [];
    const executing: number[] = [];
    const leaving = new Subject<void>();
    const limiter = createLimiter({
      scheduler: clock,
      onEvent: (event) => {
        if (event.type === 'throttled') leaving.next();
      },
    });
    const careful = policy({
      limiter,
      retry: retryFailed(),
      scheduler: clock,
      onEvent: (event) => {
        log(events)(event);
        if (event.type === 'attemptStarted') executing.push(event.executing);
      },
    });
    careful(() => throwError(() => refused))
      .pipe(takeUntil(leaving))
      .subscribe();
    expect(events).toEqual(['accepted', 'attemptStarted', 'attemptEnded cancelled', 'cancelled']);
    clock.schedule(() => undefined, 11_000);
    clock.flush();
    careful(() => of('next')).subscribe();
    expect(executing).toEqual([1, 1]);
  });

  it('when it is asked for the class of a refusal: the share of retries is left as it was', () => {
    virtualTime(({ flush, scheduler }) => {
      const leaving = new Subject<void>();
      const limiter = createLimiter({ scheduler, concurrency: 1, maxQueued: 0 });
      const lease = limiter.tryAcquire();
      const careful = policy({
        limiter,
        scheduler,
        retry: retryFailed({ delayMs: 10, jitter: 'none', maxShare: 0.2 }),
        classify: (error, context) => {
          leaving.next();
          return classifyError(error, context);
        },
      });
      for (let n = 0; n < 10; n++) {
        careful(() => NEVER)
          .pipe(takeUntil(leaving))
          .subscribe();
      }
      lease?.release();
      const attempts: number[] = [];
      careful(({ attempt }) => {
        attempts.push(attempt);
        return throwError(() => busy);
      }).subscribe({ error: () => undefined });
      flush();
      expect(attempts).toEqual([1, 2, 3]);
    });
  });
});

describe('a fallback', () => {
  it.each([
    ['at once', throwError(() => busy)],
    ['later', timer(5).pipe(mergeMap(() => throwError(() => busy)))],
    ['by taking too long', NEVER],
  ])('begins when the permit of work that failed %s is given back', (_name, work) => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1, maxQueued: 0 });
      const outcomes: unknown[] = [];
      limiter.onRelease(({ outcome }) => outcomes.push(outcome));
      const seen: string[] = [];
      const careful = policy({ limiter, timeoutMs: 10, fallback: () => limiter.run(() => of('instead')) });
      careful(() => work).subscribe((answer) => seen.push(answer));
      flush();
      expect([seen, outcomes, limiter.executing]).toEqual([['instead'], ['error', 'ok'], 0]);
    });
  });

  it('is not called when the job that gets the permit makes the consumer leave', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const leaving = new Subject<void>();
    let asked = 0;
    const fallback = (): Observable<string> => {
      asked += 1;
      return of('instead');
    };
    const failing = new Subject<never>();
    policy({ limiter, fallback })(() => failing)
      .pipe(takeUntil(leaving))
      .subscribe();
    limiter
      .run(() => {
        leaving.next();
        return of('next');
      })
      .subscribe();
    failing.error(busy);
    expect([asked, limiter.executing]).toEqual([0, 0]);
  });
});

describe('a teardown that throws', () => {
  let reported: unknown[];
  beforeEach(() => {
    reported = [];
    config.onUnhandledError = (error) => reported.push(error);
  });
  afterEach(() => {
    config.onUnhandledError = null;
  });

  const stubborn = (begin: (inner: { next(value: string): void; error(error: unknown): void; complete(): void }) => void) =>
    new Observable<string>((subscriber) => {
      subscriber.add(() => {
        throw new Error('teardown');
      });
      begin(subscriber);
    });

  it.each([
    ['completes', 'complete', ['answer', 'complete']],
    ['fails', 'error', [busy]],
    ['takes too long', 'nothing', [expect.objectContaining({ name: 'AttemptTimeoutError' })]],
  ] as const)('does not keep a call that %s from ending, nor its permit', (_name, how, seen) => {
    virtualTime(({ flush, scheduler }) => {
      const limiter = createLimiter({ scheduler, concurrency: 1 });
      const signals: unknown[] = [];
      const work = (): Observable<string> =>
        stubborn((inner) => {
          scheduler.schedule(() => {
            if (how === 'complete') {
              inner.next('answer');
              inner.complete();
            } else if (how === 'error') inner.error(busy);
          }, 5);
        });
      policy({ limiter, scheduler, timeoutMs: 50 })(work).subscribe({
        next: (value) => signals.push(value),
        error: (error: unknown) => signals.push(error),
        complete: () => signals.push('complete'),
      });
      flush();
      expect([signals, limiter.executing]).toEqual([seen, 0]);
    });
    expect(reported).toHaveLength(1);
  });

  it('does not keep the permit of a call that is left, or its attempt', () => {
    virtualTime(({ flush, scheduler }) => {
      const events: string[] = [];
      const limiter = createLimiter({ scheduler, concurrency: 2 });
      const work = (): Observable<string> => stubborn(() => undefined);
      policy({ limiter, retry: retryFailed(), scheduler, onEvent: log(events) })(work)
        .subscribe()
        .unsubscribe();
      limiter.run(work).subscribe().unsubscribe();
      flush();
      expect([events, limiter.executing]).toEqual([['accepted', 'attemptStarted', 'attemptEnded cancelled', 'cancelled'], 0]);
    });
    expect(reported).toHaveLength(2);
  });

  it('does not keep the items of a batch from being settled', () => {
    const results: unknown[] = [];
    virtualTime(({ flush, scheduler }) => {
      const work = (): Observable<string[]> =>
        new Observable((subscriber) => {
          subscriber.add(() => {
            throw new Error('teardown');
          });
          subscriber.next(['a']);
          subscriber.complete();
        });
      of('a')
        .pipe(batchMap(work, { scheduler }))
        .subscribe((settled) => results.push(settled.status));
      flush();
    });
    expect([results, reported.length]).toEqual([['fulfilled'], 1]);
  });
});

describe('what was configured', () => {
  it('is kept when the first pause is longer than the usual longest', () => {
    virtualTime(({ flush, now, scheduler }) => {
      const startedAt: number[] = [];
      policy({ scheduler, retry: retryFailed({ delayMs: 60_000, jitter: 'none' }) })(() => {
        startedAt.push(now());
        return throwError(() => busy);
      }).subscribe({ error: () => undefined });
      flush();
      expect(startedAt).toEqual([0, 60_000, 120_000]);
    });
  });

  it('is refused where a breaker could never close again', () => {
    expect(() => createBreaker({ closes: { probes: Infinity } })).toThrow(
      /expected `closes.probes` to be a whole number >= 1, got `Infinity`/,
    );
  });
});
