import { setTimeout as delay } from 'node:timers/promises';
import type { Subscriber } from 'rxjs';
import { EMPTY, ignoreElements, mergeMap, NEVER, Observable, of, Subject, takeUntil, throwError, timer, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { HedgeStats, hedgeWith } from '../../operators/hedge.js';
import type { FlowEvent } from '../../operators/index.js';
import { createLimiter, hedge, isFlowError } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const failing = (status: number): Error => Object.assign(new Error(`status ${String(status)}`), { status });

/** Subscribes, and keeps what comes out. */
function watch<R>(result: Observable<R>) {
  const values: R[] = [];
  const errors: unknown[] = [];
  let completed = false;
  const subscription = result.subscribe({
    next: (value) => values.push(value),
    error: (error: unknown) => errors.push(error),
    complete: () => (completed = true),
  });
  return { values, errors, completed: () => completed, subscription };
}

describe('the errors of a hedged call', () => {
  it('are the first attempt’s, with all of them beside it', () => {
    const [first, second] = [failing(503), failing(500)];
    const { errors } = watch(hedge((attempt) => throwError(() => (attempt === 0 ? first : second))));
    expect(errors).toEqual([first]);
    expect(errors[0]).toBe(first);
    expect((errors[0] as AggregateError).errors).toEqual([first, second]);
    expect(Object.keys(first)).toEqual(['status']);
  });

  it('are in the order of the attempts, whichever fails first', () => {
    virtualTime(({ flush }) => {
      const faults = [failing(500), failing(502), failing(503)];
      const { errors } = watch(
        hedge(
          (attempt) =>
            new Observable((subscriber) =>
              timer([9, 5, 1][attempt] ?? 0).subscribe(() => {
                subscriber.error(faults[attempt]);
              }),
            ),
          { delayMs: 0, maxAttempts: 3 },
        ),
      );
      flush();
      expect(errors[0]).toBe(faults[0]);
      expect((errors[0] as AggregateError).errors).toEqual(faults);
    });
  });

  it('are left as they are when there is one, or it cannot carry others', () => {
    const alone = failing(429);
    expect(watch(hedge(() => throwError(() => alone))).errors[0]).toBe(alone);
    expect('errors' in alone).toBe(false);
    const word: unknown = 'a word';
    const frozen: Error = Object.freeze(failing(503));
    expect(watch(hedge(() => throwError(() => frozen))).errors[0]).toBe(frozen);
    expect(
      watch(
        hedge(
          () =>
            new Observable((subscriber) => {
              subscriber.error(word);
            }),
        ),
      ).errors,
    ).toEqual(['a word']);
    const many = new AggregateError([1], 'several');
    expect((watch(hedge(() => throwError(() => many))).errors[0] as AggregateError).errors).toEqual([1]);
  });

  it.each([401, 403, 404])('end the call when they are fatal: %s', (status) => {
    let attempts = 0;
    const { errors } = watch(
      hedge(() => {
        attempts += 1;
        return throwError(() => failing(status));
      }),
    );
    expect(attempts).toBe(1);
    expect(errors).toMatchObject([{ status }]);
  });

  it.each([
    [429, 1],
    [413, 1],
    [500, 2],
    [408, 2],
  ])('with status %s make %s attempt(s)', (status, wanted) => {
    let attempts = 0;
    watch(
      hedge(() => {
        attempts += 1;
        return throwError(() => failing(status));
      }),
    );
    expect(attempts).toBe(wanted);
  });

  it('of a throwing attempt or a rejected promise count like any other', async () => {
    const tries: number[] = [];
    const result = hedge(
      (attempt) => {
        tries.push(attempt);
        if (attempt === 0) throw failing(500);
        if (attempt === 1) return Promise.reject(failing(502));
        return Promise.resolve('third');
      },
      { maxAttempts: 3 },
    );
    await expect(new Promise((resolve, reject) => result.subscribe({ next: resolve, error: reject }))).resolves.toBe('third');
    expect(tries).toEqual([0, 1, 2]);
  });

  it('do not recurse: 10,000 hedges that fail at once', () => {
    let attempts = 0;
    const busy = failing(503);
    const { errors } = watch(
      hedge(
        () => {
          attempts += 1;
          return throwError(() => busy);
        },
        { maxAttempts: 10001 },
      ),
    );
    expect(attempts).toBe(10_001);
    expect(errors).toEqual([busy]);
  });

  it('of a classifier that throws are CallbackErrors', () => {
    const fault = new Error('no opinion');
    const { errors } = watch(
      hedge(() => throwError(() => failing(500)), {
        classify: () => {
          throw fault;
        },
      }),
    );
    expect(isFlowError(errors[0], 'FLOW_CALLBACK')).toBe(true);
    expect((errors[0] as Error).cause).toBe(fault);
  });

  it.each([
    ['undefined', undefined],
    ['a word', 'fatal'],
    ['an object without a class', {}],
  ])('of a classifier that answers %s are CallbackErrors, also for a promise', async (_title, verdict) => {
    const classify = (() => verdict) as never;
    const fails = (work: () => Observable<never> | Promise<never>): Promise<unknown> =>
      new Promise((resolve) => hedge(work, { classify }).subscribe({ error: resolve }));
    for (const work of [() => throwError(() => failing(500)), () => Promise.reject(failing(500))]) {
      const error = await fails(work);
      expect(isFlowError(error, 'FLOW_CALLBACK')).toBe(true);
      expect(String(error)).toBe(
        'CallbackError: hedge: `classify` must return { class: one of throttled, transient, timeout, tooLarge, itemFault, fatal, contract, cancelled }',
      );
    }
  });

  it.each([NaN, -1, Infinity, 'soon'])('that ask for a pause of %s ms do not pause the limiter', async (retryAfterMs) => {
    const limiter = createLimiter();
    const fault = failing(429);
    const classify = (() => ({ class: 'throttled', retryAfterMs })) as never;
    const error = await new Promise((resolve) => hedge(() => Promise.reject(fault), { limiter, classify }).subscribe({ error: resolve }));
    expect(error).toBe(fault);
    expect(limiter.snapshot().pausedForMs).toBe(0);
  });

  it('of a delay that is no number are CallbackErrors, before anything is sent', () => {
    let attempts = 0;
    const { errors } = watch(hedge(() => of(++attempts), { delayMs: () => NaN }));
    expect(isFlowError(errors[0], 'FLOW_CALLBACK')).toBe(true);
    expect(attempts).toBe(0);
  });
});

describe('the losers', () => {
  it('are told to stop before the answer is handed on', () => {
    virtualTime(({ flush }) => {
      const log: string[] = [];
      hedge(
        (attempt, { signal }) => {
          signal.addEventListener('abort', () => log.push(`abort ${String(attempt)}: ${(signal.reason as DOMException).name}`));
          return attempt === 1 ? of('answer') : NEVER;
        },
        { delayMs: 5 },
      ).subscribe((answer) => log.push(answer));
      flush();
      expect(log).toEqual(['abort 0: AbortError', 'answer']);
    });
  });

  it('that ignore their signal are not heard any more', async () => {
    const ends: ((answer: string) => void)[] = [];
    const { values, completed } = watch(hedge(() => new Promise<string>((resolve) => ends.push(resolve)), { delayMs: 0 }));
    ends[1]?.('second');
    await Promise.resolve();
    ends[0]?.('first');
    await new Promise((resolve) => setImmediate(resolve));
    expect(values).toEqual(['second']);
    expect(completed()).toBe(true);
  });

  it('may make the consumer leave through their signal', () => {
    virtualTime(({ flush }) => {
      const { values, subscription } = watch(
        hedge(
          (attempt, { signal }) => {
            signal.addEventListener('abort', () => {
              subscription.unsubscribe();
            });
            return attempt === 1 ? of('answer') : NEVER;
          },
          { delayMs: 5 },
        ),
      );
      flush();
      expect(values).toEqual([]);
    });
  });

  it.each<[string, (loser: Subscriber<string>) => void]>([
    [
      'a value',
      (loser) => {
        loser.next('too late');
      },
    ],
    [
      'an end',
      (loser) => {
        loser.complete();
      },
    ],
    [
      'an error',
      (loser) => {
        loser.error(failing(401));
      },
    ],
  ])('cannot come back by answering their signal with %s', (_title, answer) => {
    virtualTime(({ flush }) => {
      const { values, errors, completed } = watch(
        hedge(
          (attempt, { signal }) =>
            new Observable<string>((subscriber) => {
              signal.addEventListener('abort', () => {
                answer(subscriber);
              });
              if (attempt === 1) subscriber.next('answer');
            }),
          { delayMs: 5 },
        ),
      );
      flush();
      expect([values, errors, completed()]).toEqual([['answer'], [], false]);
    });
  });

  it('and winners are reported', () => {
    virtualTime(({ flush }) => {
      const events: FlowEvent[] = [];
      hedge((attempt) => (attempt === 1 ? of('answer') : NEVER), {
        delayMs: 5,
        onEvent: unstamped((event) => events.push(event)),
      }).subscribe();
      flush();
      expect(events).toEqual([
        { type: 'hedged', operator: 'hedge', lane: 'default', attempt: 1, afterMs: 5 },
        { type: 'cancelled', operator: 'hedge', lane: 'default', count: 1 },
      ]);
    });
  });
});

describe('the default delay', () => {
  it('is learnt by one hedge from its own subscriptions', () => {
    virtualTime(({ flush, now }) => {
      const takes = [400, 200, NaN];
      const starts: number[] = [];
      const call = hedge((attempt) => {
        starts.push(now());
        if (attempt > 0) return NEVER;
        const tookMs = takes.shift() ?? 0;
        return Number.isNaN(tookMs) ? NEVER : timer(tookMs);
      });
      call.subscribe();
      flush();
      const first = now();
      call.subscribe();
      flush();
      const second = now();
      const open = call.subscribe();
      flush();
      // 50 ms while nothing is known; then what the slowest of one, and of two, took.
      expect(starts).toEqual([0, 50, first, second, second + 400]);
      open.unsubscribe();
    });
  });

  it('is shared by calls that a pipeline makes anew each time', () => {
    virtualTime(({ flush, now }) => {
      const stats = new HedgeStats();
      const starts: number[] = [];
      const call = (tookMs: number) =>
        hedgeWith(
          stats,
          (attempt) => {
            if (attempt > 0) starts.push(now());
            return attempt === 0 ? timer(tookMs) : NEVER;
          },
          {},
        );
      call(300).subscribe();
      flush();
      call(1000).subscribe();
      flush();
      expect(starts).toEqual([50, 600]);
      expect(stats.p95Ms).toBe(1000);
    });
  });

  it('counts a slow attempt that lost with the time it had taken, so that it does not get ever shorter', () => {
    virtualTime(({ flush }) => {
      const stats = new HedgeStats();
      hedgeWith(stats, (attempt) => (attempt === 0 ? timer(500) : timer(10)), { delayMs: 100 }).subscribe();
      flush();
      expect(stats.p95Ms).toBe(110);
    });
  });

  it('does not count an attempt that failed', () => {
    virtualTime(({ flush }) => {
      const stats = new HedgeStats();
      const fails = timer(500).pipe(mergeMap(() => throwError(() => failing(503))));
      hedgeWith(stats, (attempt) => (attempt === 0 ? fails : timer(10)), { delayMs: Infinity }).subscribe();
      flush();
      expect(stats.p95Ms).toBe(10);
    });
  });

  it('counts an attempt that ends without a value', () => {
    virtualTime(({ flush }) => {
      const stats = new HedgeStats();
      hedgeWith(stats, () => timer(300).pipe(ignoreElements()), { delayMs: Infinity }).subscribe();
      flush();
      expect(stats.p95Ms).toBe(300);
    });
  });

  it('looks at the last 100 attempts only', () => {
    const stats = new HedgeStats();
    for (let ms = 1000; ms > 0; ms--) stats.record(ms);
    expect(stats.p95Ms).toBe(95);
  });
});

describe('the budget', () => {
  it('bounds the hedges at a time to a share of the calls', () => {
    virtualTime(({ advance }) => {
      const stats = new HedgeStats();
      const calls = Array.from({ length: 40 }, () => hedgeWith(stats, () => NEVER, { delayMs: 5, maxShare: 0.1 }).subscribe());
      advance(5);
      expect(stats.calling).toBe(40);
      expect(stats.hedging).toBe(4);
      for (const call of calls) call.unsubscribe();
      expect(stats.calling).toBe(0);
      expect(stats.hedging).toBe(0);
    });
  });

  it('lets three hedge whatever the share', () => {
    virtualTime(({ advance }) => {
      const stats = new HedgeStats();
      const calls = Array.from({ length: 10 }, () => hedgeWith(stats, () => NEVER, { delayMs: 5, maxShare: 0.01 }).subscribe());
      advance(5);
      expect(stats.hedging).toBe(3);
      for (const call of calls) call.unsubscribe();
    });
  });
});

describe('with a limiter', () => {
  it('every attempt has a permit of its own, and gives it back', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 5 });
      const leases: unknown[] = [];
      const call = hedge(
        (_attempt, { lease }) => {
          leases.push(lease);
          return NEVER;
        },
        { delayMs: 5, maxAttempts: 3, limiter },
      ).subscribe();
      advance(10);
      expect(limiter.snapshot().executing).toBe(3);
      expect(new Set(leases).size).toBe(3);
      call.unsubscribe();
      advance(1);
      expect(limiter.snapshot().executing).toBe(0);
    });
  });

  it('a full queue refuses the hedge, not the call', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1, maxQueued: 1 });
      const { values, errors } = watch(hedge(() => timer(50), { delayMs: 5, maxAttempts: 4, limiter }));
      limiter.acquire().subscribe((lease) => {
        lease.release();
      });
      flush();
      expect(errors).toEqual([]);
      expect(values).toEqual([0]);
    });
  });

  it('a refused first attempt is the error', () => {
    const limiter = createLimiter();
    limiter.close();
    expect(watch(hedge(() => of(1), { limiter })).errors.map((error) => isFlowError(error, 'FLOW_CLOSED'))).toEqual([true]);
  });

  it('a hedge after a refused first attempt is reported as made at once', () => {
    const limiter = createLimiter();
    limiter.close();
    const events: FlowEvent[] = [];
    watch(hedge(() => of(1), { limiter, classify: () => ({ class: 'transient' }), onEvent: unstamped((event) => events.push(event)) }));
    expect(events).toEqual([{ type: 'hedged', operator: 'hedge', lane: 'default', attempt: 1, afterMs: 0 }]);
  });

  it('does not pause it for a failure that is no throttling, whatever it asks for', () => {
    const limiter = createLimiter();
    watch(hedge(() => throwError(() => failing(503)), { limiter, classify: () => ({ class: 'transient', retryAfterMs: 2000 }) }));
    expect(limiter.snapshot().pausedForMs).toBe(0);
  });

  it('pauses it for as long as a throttled attempt was told to wait', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter();
      watch(hedge(() => throwError(() => Object.assign(failing(429), { headers: { 'retry-after': '2' } })), { limiter }));
      expect(limiter.snapshot().pausedForMs).toBe(2000);
      advance(2000);
    });
  });
});

it('leaves no timer when the consumer leaves while the first attempt is silent', () => {
  const scheduler = new CountingScheduler();
  hedge(() => NEVER, { delayMs: 5, scheduler })
    .subscribe()
    .unsubscribe();
  expect(scheduler.delays).toEqual([5]);
  expect(scheduler.actions).toHaveLength(0);
});

it('leaves no timer when the first attempt has answered and goes on', () => {
  const scheduler = new CountingScheduler();
  const answer = new Subject<string>();
  const { values, subscription } = watch(hedge(() => answer, { delayMs: 5, scheduler }));
  answer.next('so far');
  expect(values).toEqual(['so far']);
  expect(scheduler.actions).toHaveLength(0);
  subscription.unsubscribe();
});

it('leaves no listener on a session signal: 10,000 calls of two attempts', () => {
  const session = new AbortController().signal;
  let listeners = 0;
  const [add, remove] = [session.addEventListener.bind(session), session.removeEventListener.bind(session)];
  session.addEventListener = (...args: Parameters<typeof add>) => {
    listeners += 1;
    add(...args);
  };
  session.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners -= 1;
    remove(...args);
  };
  let most = 0;
  const ask = (attempt: number): Observable<number> =>
    new Observable((subscriber) => {
      const end = (): void => undefined;
      session.addEventListener('abort', end);
      subscriber.add(() => {
        session.removeEventListener('abort', end);
      });
      most = Math.max(most, listeners);
      if (attempt === 1) subscriber.next(attempt);
    });
  for (let i = 0; i < 10_000; i++) hedge(ask, { delayMs: 0 }).subscribe().unsubscribe();
  expect(most).toBe(2);
  expect(listeners).toBe(0);
});

describe('hedge', () => {
  expectNoUnhandledRejections();

  it('calls no attempt that waits for its permit when its consumer, told of the error, makes room', () => {
    const scheduler = new VirtualTimeScheduler();
    const limiter = createLimiter({ concurrency: 1, scheduler });
    const calls: number[] = [];
    const attempt = (index: number): Observable<never> => {
      calls.push(index);
      return timer(5, scheduler).pipe(mergeMap(() => throwError(() => Object.assign(new Error('no'), { status: 401 }))));
    };
    let failures = 0;
    hedge(attempt, { limiter, delayMs: 1, scheduler }).subscribe({
      error: () => {
        failures++;
        limiter.setLimits({ concurrency: 4 });
      },
    });
    scheduler.flush();
    expect([failures, calls, limiter.executing, limiter.snapshot().queued]).toEqual([1, [0], 0, 0]);
  });

  it('makes no attempt whose permit comes while it is being given up', async () => {
    const stop = new Subject<void>();
    const limiter = createLimiter({ concurrency: 1 });
    const made: number[] = [];
    let answer: ((value: string) => void) | undefined;
    const ask = (index: number): Promise<string> => {
      made.push(index);
      return new Promise((resolve) => {
        answer = resolve;
      });
    };
    hedge(ask, {
      delayMs: 0,
      limiter,
      onEvent: ({ type }) => {
        if (type === 'cancelled') stop.next();
      },
    })
      .pipe(takeUntil(stop))
      .subscribe();
    answer?.('answer');
    await delay(0);
    expect([made, limiter.executing, limiter.snapshot().queued]).toEqual([[0], 0, 0]);
  });

  it('counts no attempt twice when the consumer leaves while it hears of the loser of one without a value', () => {
    const stats = new HedgeStats();
    const stop = new Subject<void>();
    const ask = (index: number, { signal }: { readonly signal: AbortSignal }) => {
      if (index > 0) return EMPTY;
      signal.addEventListener('abort', () => {
        stop.next();
      });
      return NEVER;
    };
    hedgeWith(stats, ask, { delayMs: 0 }).pipe(takeUntil(stop)).subscribe();
    expect([stats.hedging, stats.calling]).toEqual([0, 0]);
  });

  it('makes no attempt for a consumer that leaves when it hears of it', () => {
    const stats = new HedgeStats();
    const stop = new Subject<void>();
    const made: number[] = [];
    const ask = (index: number) => {
      made.push(index);
      return NEVER;
    };
    hedgeWith(stats, ask, {
      delayMs: 0,
      onEvent: ({ type }) => {
        if (type === 'hedged') stop.next();
      },
    })
      .pipe(takeUntil(stop))
      .subscribe();
    expect([made, stats.hedging, stats.calling]).toEqual([[0], 0, 0]);
  });
});
