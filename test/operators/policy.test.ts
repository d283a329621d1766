import {
  concat,
  EMPTY,
  finalize,
  firstValueFrom,
  ignoreElements,
  interval,
  lastValueFrom,
  map,
  merge,
  mergeMap,
  NEVER,
  Observable,
  of,
  Subject,
  Subscription,
  take,
  takeUntil,
  tap,
  throwError,
  timer,
} from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, PolicyOptions } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  BreakerOpenError,
  ClosedError,
  classifyError,
  createAccount,
  createBreaker,
  createLimiter,
  DeadlineError,
  hedge,
  heldBy,
  policy,
  RateLimitError,
  retryFailed,
} from '../../operators/index.js';
import type { Release } from '../../operators/options/limiter.js';
import type { PolicyContext } from '../../operators/shell/policy/policy-rules.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

expectNoUnhandledRejections();

const failing = (status: number, headers: Readonly<Record<string, string>> = {}): Error =>
  Object.assign(new Error(`status ${String(status)}`), { status, headers });
const busy = failing(503);

/** Pauses as configured. */
const steady = { delayMs: 100, jitter: 'none', maxShare: 0.2 } as const;

interface Seen<R> {
  readonly values: R[];
  readonly ends: unknown[];
  readonly leave: () => void;
}

function watch<R>(result: Observable<R>): Seen<R> {
  const values: R[] = [];
  const ends: unknown[] = [];
  const subscription = result.subscribe({
    next: (value) => values.push(value),
    error: (error: unknown) => ends.push(error),
    complete: () => ends.push('complete'),
  });
  return {
    values,
    ends,
    leave: () => {
      subscription.unsubscribe();
    },
  };
}

/** Work that fails with one error after the other, then answers. Remembers when it was called. */
function flaky(now: () => number, ...errors: readonly Error[]) {
  const calledAt: number[] = [];
  return {
    calledAt,
    work: ({ attempt }: PolicyContext): Observable<string> => {
      calledAt.push(now());
      const error = errors[calledAt.length - 1];
      return error ? throwError(() => error) : of(`attempt ${String(attempt)}`);
    },
  };
}

describe('another attempt', () => {
  it.each([
    ['429', failing(429), 2],
    ['408', failing(408), 2],
    ['500', failing(500), 2],
    ['529', failing(529), 2],
    ['a connection that broke', Object.assign(new Error('reset'), { code: 'ECONNRESET' }), 2],
    ['a fetch that failed', new TypeError('fetch failed'), 2],
    ['a timeout of the SDK', Object.assign(new Error('late'), { name: 'APIConnectionTimeoutError' }), 2],
    ['400', failing(400), 1],
    ['401', failing(401), 1],
    ['404', failing(404), 1],
    ['413', failing(413), 1],
    ['an abort', new DOMException('left', 'AbortError'), 1],
    ['a deadline inside', new DeadlineError('settleAll', 1, 1), 1],
    ['an unknown error', new Error('some bug'), 1],
  ])('after %s: %s makes %s', (_name, error, attempts) => {
    virtualTime(({ flush, now }) => {
      const { work, calledAt } = flaky(now, error);
      const { ends } = watch(policy({ classify: classifyError, retry: retryFailed({ jitter: 'none' }) })(work));
      flush();
      expect(calledAt).toHaveLength(attempts);
      expect(ends).toEqual([attempts === 1 ? error : 'complete']);
    });
  });

  it('comes after the pauses that were configured, the first attempt included in their number', () => {
    virtualTime(({ flush, now }) => {
      const { work, calledAt } = flaky(now, busy, busy, busy, busy, busy);
      const { values } = watch(policy({ retry: retryFailed({ maxAttempts: 6, delayMs: 100, maxMs: 500, jitter: 'none' }) })(work));
      flush();
      expect(calledAt).toEqual([0, 100, 300, 700, 1200, 1700]);
      expect(values).toEqual(['attempt 6']);
    });
  });

  it('comes after 200 ms, doubling, with full jitter by default: three attempts', () => {
    virtualTime(({ flush, now }) => {
      const { work, calledAt } = flaky(now, busy, busy, busy);
      const { ends } = watch(policy({ retry: retryFailed(), random: () => 0.5 })(work));
      flush();
      expect(calledAt).toEqual([0, 100, 300]);
      expect(ends).toEqual([busy]);
      expect(ends[0]).toBe(busy);
    });
  });

  it('does not come before the time the other side asked for, stretched by up to a tenth', () => {
    for (const [random, at] of [
      [0, 2000],
      [0.5, 2100],
      [1, 2200],
    ] as const) {
      virtualTime(({ flush, now }) => {
        const { work, calledAt } = flaky(now, failing(429, { 'retry-after': '2' }));
        watch(policy({ retry: retryFailed(), random: () => random })(work));
        flush();
        expect(calledAt).toEqual([0, at]);
      });
    }
  });

  it('is not made without `retry`, or with one attempt', () => {
    virtualTime(({ flush, now }) => {
      for (const options of [{}, { retry: retryFailed({ maxAttempts: 1 }) }]) {
        const { work, calledAt } = flaky(now, busy);
        expect(watch(policy(options)(work)).ends).toEqual([busy]);
        flush();
        expect(calledAt).toHaveLength(1);
      }
    });
  });

  it('is not made once a value was handed on: it would come twice', () => {
    virtualTime(({ flush }) => {
      let attempts = 0;
      const { values, ends } = watch(
        policy({ retry: retryFailed() })(() => {
          attempts += 1;
          return concat(
            of('half an answer'),
            throwError(() => busy),
          );
        }),
      );
      flush();
      expect([attempts, values, ends]).toEqual([1, ['half an answer'], [busy]]);
    });
  });

  it('is made after a throw and after a rejected promise', async () => {
    const tries: number[] = [];
    const result = policy({ retry: retryFailed({ delayMs: 0 }) })(({ attempt }) => {
      tries.push(attempt);
      if (attempt === 1) throw busy;
      if (attempt === 2) return Promise.reject(busy);
      return Promise.resolve('third');
    });
    await expect(lastValueFrom(result)).resolves.toBe('third');
    expect(tries).toEqual([1, 2, 3]);
  });

  it('is up to the class that `classify` tells; one that throws leaves the error final', () => {
    virtualTime(({ flush, now }) => {
      const odd = new Error('odd');
      const asked: unknown[] = [];
      const first = flaky(now, odd);
      const classify: PolicyOptions['classify'] = (error, context) => {
        asked.push(error, context);
        return { class: 'transient' };
      };
      watch(policy({ classify, retry: retryFailed(steady) })(first.work));
      flush();
      expect(first.calledAt).toEqual([0, 100]);
      expect(asked).toEqual([odd, { size: 1, attempt: 1, aborted: false, epochMs: 0 }]);
      const broken = watch(
        policy({
          retry: retryFailed(),
          classify: () => {
            throw new Error('no opinion');
          },
        })(() => throwError(() => busy)),
      );
      expect(broken.ends).toEqual([busy]);
    });
  });

  it.each([NaN, -1, 1.5, 'half'])('needs a random number: not %s', (drawn) => {
    const { ends } = watch(policy({ retry: retryFailed(), random: () => drawn as number })(() => throwError(() => busy)));
    expect(ends).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'random' }]);
  });

  it('does not recurse: 10,000 attempts without a pause', () => {
    const clock = new CountingScheduler();
    let attempts = 0;
    const { ends } = watch(
      policy({ retry: retryFailed({ maxAttempts: 10_000, delayMs: 0 }), scheduler: clock })(() => {
        attempts += 1;
        return throwError(() => busy);
      }),
    );
    clock.flush();
    expect([attempts, ends]).toEqual([10_000, [busy]]);
  });
});

describe('the share of retries', () => {
  const failNow = (): Observable<never> => throwError(() => busy);

  it('lets at most 20 % of the calls of a policy try again at a time', () => {
    virtualTime(({ advance }) => {
      const careful = policy({ retry: retryFailed(steady) });
      const open = Array.from({ length: 80 }, () => watch(careful(() => NEVER)));
      const failed = Array.from({ length: 100 }, () => watch(careful(failNow)));
      const waiting = failed.filter(({ ends }) => ends.length === 0).length;
      // 80 go on, and every one that waits is one more that is active.
      expect(waiting).toBe(20);
      for (const { leave } of [...open, ...failed]) leave();
      advance(1);
    });
  });

  it('always lets three try again, and is free again when they are over', () => {
    virtualTime(({ flush }) => {
      const careful = policy({ retry: retryFailed({ ...steady, maxShare: 0.01 }) });
      for (let round = 0; round < 3; round++) {
        const calls = Array.from({ length: 10 }, () => watch(careful(failNow)));
        expect(calls.filter(({ ends }) => ends.length === 0)).toHaveLength(3);
        flush();
        expect(calls.filter(({ ends }) => ends.length === 0)).toHaveLength(0);
      }
    });
  });

  it('counts a call that has left, or the second retry of one, no longer or not twice', () => {
    virtualTime(({ advance, flush, now }) => {
      const careful = policy({ retry: retryFailed({ ...steady, maxShare: 0.01 }) });
      const left = Array.from({ length: 3 }, () => watch(careful(failNow)));
      for (const { leave } of left) leave();
      const calls = Array.from({ length: 3 }, () => flaky(now, busy, busy));
      const seen = calls.map(({ work }) => watch(careful(work)));
      advance(1);
      flush();
      expect(seen.map(({ values }) => values)).toEqual([['attempt 3'], ['attempt 3'], ['attempt 3']]);
    });
  });

  it('is without a bound with a budget of Infinity', () => {
    virtualTime(({ flush }) => {
      const careful = policy({ retry: retryFailed({ ...steady, maxShare: Infinity }) });
      const calls = Array.from({ length: 100 }, () => watch(careful(failNow)));
      expect(calls.filter(({ ends }) => ends.length === 0)).toHaveLength(100);
      flush();
    });
  });
});

describe('with a limiter', () => {
  it('no slot is held during a pause, and every attempt takes a permit of its own', () => {
    virtualTime(({ advance, flush }) => {
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 600, headroom: 1 });
      const before = limiter.snapshot().requests;
      const leases = new Set<unknown>();
      const { values } = watch(
        policy({ limiter, retry: retryFailed(steady) })(({ attempt, lease }) => {
          leases.add(lease);
          return attempt < 3 ? throwError(() => busy) : of(attempt);
        }),
      );
      expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0, requests: before - 1 });
      const other: number[] = [];
      limiter.run(() => timer(50)).subscribe((value) => other.push(value));
      expect(limiter.executing).toBe(1);
      advance(50);
      expect(other).toEqual([0]);
      flush();
      expect(values).toEqual([3]);
      expect(leases.size).toBe(3);
    });
  });

  it('listeners of releases are told the outcome and the error', () => {
    virtualTime(({ flush, advance }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const releases: [Release['outcome'], unknown][] = [];
      limiter.onRelease(({ outcome, error }) => releases.push([outcome, error]));
      const careful = policy({ limiter, retry: retryFailed(steady), timeoutMs: 1000, deadlineMs: 5000 });
      watch(careful(({ attempt }) => (attempt === 1 ? throwError(() => busy) : of(1))));
      flush();
      watch(careful(() => NEVER, { idempotent: false }));
      flush();
      const open = watch(careful(() => NEVER));
      open.leave();
      advance(0);
      expect(releases).toEqual([
        ['error', busy],
        ['ok', undefined],
        ['error', expect.any(AttemptTimeoutError)],
        ['cancelled', undefined],
      ]);
    });
  });

  it('what was not sent is not charged: a listener that leaves with the permit in hand', () => {
    virtualTime(() => {
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 600 });
      const before = limiter.snapshot().requests;
      let calls = 0;
      const leaving = new Subject<void>();
      const careful = policy({
        limiter,
        onEvent: ({ type }) => {
          if (type === 'attemptStarted') leaving.next();
        },
      });
      const subscription = careful(() => of(++calls));
      const open: { unsubscribe(): void }[] = [];
      leaving.subscribe(() => {
        open[0]?.unsubscribe();
      });
      const lease = limiter.tryAcquire()!;
      open.push(subscription.subscribe());
      lease.release('unused');
      expect([calls, limiter.executing, limiter.snapshot().requests]).toEqual([0, 0, before]);
    });
  });

  it('a pause that the server asks for holds every job, and begins before the permit is returned', () => {
    virtualTime(({ flush, now }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const startedAt: number[] = [];
      watch(policy({ limiter, retry: retryFailed(), random: () => 0 })(flaky(now, failing(429, { 'retry-after': '2' })).work));
      limiter
        .run(() => {
          startedAt.push(now());
          return of(1);
        })
        .subscribe();
      expect(limiter.snapshot().pausedForMs).toBe(2000);
      flush();
      expect(startedAt).toEqual([2000]);
    });
    virtualTime(({ flush, now }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const startedAt: number[] = [];
      const fails = timer(10).pipe(mergeMap(() => throwError(() => failing(503, { 'retry-after': '1' }))));
      watch(policy({ limiter })(() => fails));
      // It waits for the slot, and would get it in the moment the first call ends.
      limiter
        .run(() => {
          startedAt.push(now());
          return of(1);
        })
        .subscribe();
      flush();
      expect(startedAt).toEqual([1010]);
    });
  });

  it('a limiter or a breaker inside the work does not pause it', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter();
      watch(policy({ limiter })(() => throwError(() => new RateLimitError('createLimiter', 'concurrency', 5000))));
      watch(policy({ limiter })(() => throwError(() => new BreakerOpenError('createBreaker', 5000))));
      expect(limiter.snapshot().pausedForMs).toBe(0);
      flush();
    });
  });

  it('a refusal of the limiter itself is tried again when it says so, without a pause for others', () => {
    virtualTime(({ flush, advance }) => {
      const limiter = createLimiter({ concurrency: 1, maxQueued: 0 });
      const lease = limiter.tryAcquire()!;
      const { values, ends } = watch(policy({ limiter, retry: retryFailed(steady) })(({ attempt }) => of(attempt)));
      expect(ends).toEqual([]);
      expect(limiter.snapshot().pausedForMs).toBe(0);
      advance(50);
      lease.release();
      flush();
      expect(values).toEqual([2]);
      const closed = createLimiter();
      closed.close();
      expect(watch(policy({ limiter: closed, retry: retryFailed(steady) })(() => of(1))).ends).toEqual([expect.any(ClosedError)]);
    });
  });

  it('the job says lane and cost; a call may override them, and an unknown lane errors the call', () => {
    virtualTime(() => {
      const limiter = createAccount({ tokensPerMinute: 60_000, headroom: 1, lanes: ['p0', 'p2'] });
      const tokens = (): number => limiter.snapshot().tokens;
      const lanes: string[] = [];
      const careful = policy({
        limiter,
        retry: retryFailed(steady),
        job: { lane: 'p2', cost: { tokens: 100 } },
        onEvent: (event) => {
          if (event.type === 'attemptStarted') lanes.push(event.lane);
        },
      });
      const before = tokens();
      watch(careful(() => of(1)));
      expect(tokens()).toBe(before - 100);
      watch(careful(() => of(1), { job: { lane: 'p0' } }));
      expect(tokens()).toBe(before - 200);
      expect(lanes).toEqual(['p2', 'p0']);
      expect(watch(careful(() => of(1), { job: { lane: 'p7' } })).ends).toMatchObject([{ code: 'FLOW_LANE_UNKNOWN' }]);
    });
  });

  it.each(['id', 'lane', 'key', 'cost', 'signal', 'deadlineMs', 'holder'])('a `%s` of a call that is undefined is left out', (field) => {
    virtualTime(() => {
      const limiter = createAccount({ concurrency: 1, lanes: ['p0', 'p2'] });
      const careful = policy({ limiter, job: { lane: 'p0', id: 'one' } });
      const slot = limiter.tryAcquire();
      const served: string[] = [];
      const serve = (lane: string) => () => of(served.push(lane));
      watch(limiter.run(serve('p2'), { lane: 'p2' }));
      watch(careful(serve('p0'), { job: { [field]: undefined } }));
      slot?.release();
      expect(served).toEqual(['p0', 'p2']);
    });
  });

  it('a job that the limiter does not take errors the call, and is not tried again', () => {
    virtualTime(({ pending }) => {
      const limiter = createLimiter();
      for (const job of [{ cost: { tokens: -1 } }, { priority: 1 } as never, { deadlineMs: NaN }, { signal: {} as never }])
        expect(watch(policy({ limiter, retry: retryFailed(steady), job })(() => of(1))).ends).toMatchObject([
          { code: 'FLOW_CONFIG_INVALID' },
        ]);
      expect(pending()).toBe(0);
    });
  });

  it('the work settles its real cost and shows it responses, with functions taken out of the context', () => {
    virtualTime(({ advance }) => {
      const limiter = createAccount({ tokensPerMinute: 60_000, headroom: 1 });
      const before = limiter.snapshot().tokens;
      watch(
        policy({ limiter, job: { cost: { tokens: 100 } } })(({ settle, observe }) => {
          settle({ inputTokens: 30, outputTokens: 20 });
          observe({ status: 429, headers: { 'retry-after': '3' } });
          return of(1);
        }),
      );
      expect(limiter.snapshot()).toMatchObject({ tokens: before - 50, pausedForMs: 3000 });
      watch(
        policy()(({ settle, observe, lease }) => {
          settle({ inputTokens: 30 });
          observe({ status: 429, headers: {} });
          return of(lease);
        }),
      );
      advance(3000);
    });
  });

  it('a job that names its holder is refused where it could never be served', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const careful = policy({ limiter, retry: retryFailed(steady) });
      const outer = watch(limiter.run(({ lease }) => careful(() => of('inside'), { job: { holder: heldBy(lease) } })));
      flush();
      expect(outer.ends).toMatchObject([{ code: 'FLOW_NESTED_ACQUIRE' }]);
    });
  });

  it('10,000 calls that answer at once do not recurse', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1, maxQueued: Infinity });
      const lease = limiter.tryAcquire()!;
      const careful = policy({ limiter });
      let answers = 0;
      for (let n = 0; n < 10_000; n++) careful(() => of(1)).subscribe((value) => (answers += value));
      lease.release();
      flush();
      expect(answers).toBe(10_000);
    });
  });
});

describe('the time of an attempt', () => {
  it('runs from its permit; then its signal aborts, and the slot of an Observable is free at once', () => {
    virtualTime(({ advance, flush, now }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const lease = limiter.tryAcquire()!;
      const aborts: unknown[] = [];
      const { ends } = watch(
        policy({ limiter, timeoutMs: 1000 })(({ signal, deadlineAt }) => {
          signal.addEventListener('abort', () => aborts.push([now(), (signal.reason as DOMException).name]));
          aborts.push(deadlineAt);
          return NEVER;
        }),
      );
      advance(5000);
      lease.release();
      advance(1000);
      expect(aborts).toEqual([6000, [6000, 'AbortError']]);
      expect(ends).toEqual([expect.any(AttemptTimeoutError)]);
      expect(ends).toMatchObject([{ operator: 'policy', timeoutMs: 1000 }]);
      expect(limiter.executing).toBe(0);
      flush();
    });
  });

  it('of a promise that goes on keeps its slot until it is over, and tells its listeners why', async () => {
    const clock = new CountingScheduler();
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: 60_000, scheduler: clock });
    const releases: unknown[] = [];
    limiter.onRelease(({ outcome, error }) => releases.push([outcome, (error as Error | undefined)?.name]));
    const ended: (() => void)[] = [];
    const { ends } = watch(
      policy({ limiter, timeoutMs: 1000, scheduler: clock })(
        () =>
          new Promise<void>((resolve) => {
            ended.push(resolve);
          }),
      ),
    );
    clock.maxFrames = 1000;
    clock.flush();
    expect(ends).toEqual([expect.any(AttemptTimeoutError)]);
    expect([limiter.executing, releases]).toEqual([1, []]);
    for (const end of ended) end();
    await new Promise((resolve) => setImmediate(resolve));
    expect([limiter.executing, releases]).toEqual([0, [['error', 'AttemptTimeoutError']]]);
    limiter.close();
    clock.maxFrames = Infinity;
    clock.flush();
  });

  it('cannot be answered too late: what comes after the abort is not heard', () => {
    virtualTime(({ flush }) => {
      const { values, ends } = watch(
        policy({ timeoutMs: 1000 })(
          ({ signal }) =>
            new Observable<string>((subscriber) => {
              signal.addEventListener('abort', () => {
                subscriber.next('too late');
                subscriber.error(busy);
              });
            }),
        ),
      );
      flush();
      expect([values, ends]).toEqual([[], [expect.any(AttemptTimeoutError)]]);
    });
  });

  it('counts as a timeout: tried again, but for what may have had its effect', () => {
    virtualTime(({ flush }) => {
      let attempts = 0;
      const careful = policy({ timeoutMs: 1000, retry: retryFailed(steady) });
      const stuck = (): Observable<never> => {
        attempts += 1;
        return NEVER;
      };
      watch(careful(stuck));
      flush();
      expect(attempts).toBe(3);
      watch(careful(stuck, { idempotent: false }));
      flush();
      expect(attempts).toBe(4);
      watch(policy({ timeoutMs: 1000, idempotent: false, retry: retryFailed(steady) })(stuck, { idempotent: true }));
      flush();
      expect(attempts).toBe(7);
    });
  });

  it('bounds all of an answer, also one that comes bit by bit', () => {
    virtualTime(({ flush }) => {
      const { values, ends } = watch(policy({ timeoutMs: 1000, retry: retryFailed(steady) })(() => timer(0, 300)));
      flush();
      expect([values, ends]).toEqual([[0, 1, 2, 3], [expect.any(AttemptTimeoutError)]]);
    });
  });
});

describe('the clock of an attempt', () => {
  /** Fails at these times for `timeoutMs: 100`. */
  const endsOf = (work: (context: PolicyContext) => Observable<unknown>, options: Parameters<typeof policy>[0] = {}): unknown[] =>
    virtualTime(({ flush, now }) => {
      const ends: unknown[] = [];
      policy({ timeoutMs: 100, ...options })(work).subscribe({
        error: (error: Error) => ends.push([now(), error.name]),
        complete: () => ends.push([now(), 'complete']),
      });
      flush();
      return ends;
    });
  const at = (ms: number, act: () => void): Observable<never> => timer(ms).pipe(tap(act), ignoreElements());

  it('starts anew when the work says so', () => {
    expect(endsOf(({ restartTimeout }) => merge(NEVER, at(60, restartTimeout), at(120, restartTimeout)))).toEqual([
      [220, 'AttemptTimeoutError'],
    ]);
  });

  it('stands still while any pause lasts, and then has left what was left', () => {
    const ends = endsOf(({ pauseTimeout }) => {
      const resumes: (() => void)[] = [];
      const pause = (): void => void resumes.push(pauseTimeout());
      const resume = (): void => {
        // A second call changes nothing.
        for (const again of [1, 2]) if (again > 0) resumes[0]?.();
        resumes.shift();
      };
      return merge(NEVER, at(30, pause), at(50, pause), at(500, resume), at(1000, resume));
    });
    expect(ends).toEqual([[1070, 'AttemptTimeoutError']]);
  });

  it('starts anew during a pause for the time after it', () => {
    const ends = endsOf(({ pauseTimeout, restartTimeout }) => {
      const resume = pauseTimeout();
      return merge(NEVER, at(500, restartTimeout), at(1000, resume));
    });
    expect(ends).toEqual([[1100, 'AttemptTimeoutError']]);
  });

  it('is not that of the deadline, nor of another attempt', () => {
    expect(endsOf(({ pauseTimeout }) => (pauseTimeout(), NEVER), { deadlineMs: 500 })).toEqual([[500, 'DeadlineError']]);
    let first: PolicyContext | undefined;
    const ends = endsOf(
      (context) => {
        first ??= context;
        if (context === first) return throwError(() => busy);
        first.restartTimeout();
        first.pauseTimeout();
        return NEVER;
      },
      { retry: retryFailed({ ...steady, maxAttempts: 2 }) },
    );
    expect(ends).toEqual([[200, 'AttemptTimeoutError']]);
  });
});

describe('resumable work', () => {
  it('is made again after values, and counts attempts anew with each', () => {
    virtualTime(({ flush, now }) => {
      const attempts: unknown[] = [];
      const { values, ends } = watch(
        policy({ resumable: true, retry: retryFailed({ ...steady, maxAttempts: 2 }) })(({ attempt }) => {
          attempts.push([now(), attempt]);
          return attempts.length < 4
            ? concat(
                of(attempts.length),
                throwError(() => busy),
              )
            : throwError(() => busy);
        }),
      );
      flush();
      expect(attempts).toEqual([
        [0, 1],
        [100, 2],
        [200, 2],
        [300, 2],
      ]);
      expect(values).toEqual([1, 2, 3]);
      expect(ends).toEqual([busy]);
    });
  });

  it('has no fallback after its first value, and gives back its share of retries with each', () => {
    virtualTime(({ flush }) => {
      let calls = 0;
      const careful = policy({ resumable: true, retry: retryFailed(steady), fallback: () => of('fallback') });
      const work = () => concat(of(++calls), calls < 3 ? throwError(() => busy) : throwError(() => failing(400)));
      const { values, ends } = watch(careful(work));
      flush();
      expect(values).toEqual([1, 2, 3]);
      expect(ends).toMatchObject([{ status: 400 }]);
    });
  });

  it('takes one step back from the growing pauses of refusals with a value', () => {
    virtualTime(({ flush, now }) => {
      const calledAt: number[] = [];
      const plan = ['refuse', 'refuse', 'value', 'refuse', 'end'];
      policy({ resumable: true, retry: retryFailed({ ...steady, maxThrottledMs: 1000 }) })(() => {
        const step = plan[calledAt.push(now()) - 1];
        if (step === 'end') return EMPTY;
        return concat(
          step === 'value' ? of(1) : EMPTY,
          throwError(() => (step === 'refuse' ? failing(429) : busy)),
        );
      }).subscribe();
      flush();
      expect(calledAt).toEqual([0, 100, 300, 400, 600]);
    });
  });
});

describe('the deadline', () => {
  it('includes the wait for a permit, and the job leaves the queue', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const lease = limiter.tryAcquire()!;
      const { ends } = watch(policy({ limiter, deadlineMs: 1000, retry: retryFailed(steady) })(() => of(1)));
      advance(1000);
      expect(ends).toMatchObject([{ code: 'FLOW_DEADLINE', operator: 'policy', deadlineMs: 1000, elapsedMs: 1000 }]);
      expect(limiter.snapshot().queued).toBe(0);
      lease.release();
    });
  });

  it('includes attempts and pauses; its error has the last one as its cause, and an attempt has what is left', () => {
    virtualTime(({ flush, now }) => {
      const deadlines: number[] = [];
      const { ends } = watch(
        policy({ deadlineMs: 1000, timeoutMs: 700, retry: retryFailed(steady) })(({ attempt, deadlineAt }) => {
          deadlines.push(deadlineAt);
          return attempt === 1 ? timer(500).pipe(mergeMap(() => throwError(() => busy))) : NEVER;
        }),
      );
      flush();
      expect(now()).toBe(1000);
      expect(deadlines).toEqual([700, 1000]);
      expect(ends).toMatchObject([{ code: 'FLOW_DEADLINE', cause: busy }]);
    });
  });

  it('starts with the subscription, not when the call is described', () => {
    virtualTime(({ advance, flush }) => {
      const call = policy({ deadlineMs: 1000 })(() => timer(800));
      advance(5000);
      const { values } = watch(call);
      flush();
      expect(values).toEqual([0]);
    });
  });

  it('ends the call at once when the next pause would go beyond it', () => {
    virtualTime(({ now, pending }) => {
      const { ends } = watch(policy({ deadlineMs: 100, retry: retryFailed(steady) })(flaky(now, busy).work));
      expect(ends).toMatchObject([{ code: 'FLOW_DEADLINE', deadlineMs: 100, elapsedMs: 0, cause: busy }]);
      expect(pending()).toBe(0);
    });
  });

  it('is not told to the breaker as a failure; an error before it is', () => {
    virtualTime(({ flush, now }) => {
      const breaker = createBreaker({ opens: { minCalls: 1 } });
      watch(policy({ breaker, deadlineMs: 1000, retry: retryFailed(steady) })(() => NEVER));
      watch(policy({ breaker, deadlineMs: 1000, timeoutMs: 1000, retry: retryFailed(steady) })(() => NEVER));
      flush();
      expect(breaker.snapshot()).toMatchObject({ state: 'closed', calls: 0 });
      watch(policy({ breaker, deadlineMs: 100, retry: retryFailed(steady) })(flaky(now, busy).work));
      expect(breaker.state).toBe('open');
    });
  });

  const answers: Readonly<Record<string, () => Observable<number>>> = {
    'after its first value': () => concat(of(1), NEVER),
    'after many values': () => interval(10),
    'before its first value': () => NEVER,
  };

  it.each(Object.entries(answers))('says nothing to the breaker of a call that it cuts off %s, whatever counts', (_when, work) => {
    virtualTime(({ flush, advance }) => {
      const breaker = createBreaker({ opens: { minCalls: 1 }, openMs: 1, classify: () => ({ class: 'transient' }) });
      const careful = policy({ breaker, deadlineMs: 1000, retry: retryFailed(steady) });
      const { ends } = watch(careful(work));
      flush();
      expect(ends).toEqual([expect.any(DeadlineError)]);
      expect(breaker.snapshot()).toMatchObject({ state: 'closed', calls: 0 });
      // As a probe it gives its place back, and closes nothing.
      breaker.run(() => throwError(() => busy)).subscribe({ error: () => undefined });
      advance(1);
      watch(careful(() => concat(of(1), NEVER)));
      flush();
      expect(breaker.snapshot()).toMatchObject({ state: 'halfOpen', probing: 0 });
    });
  });

  it('leaves a call that its consumer has left with a value before it, or that has ended, the success that it was', () => {
    virtualTime(({ flush }) => {
      const breaker = createBreaker();
      const careful = policy({ breaker, deadlineMs: 1000 });
      careful(() => concat(of(1), NEVER))
        .pipe(take(1))
        .subscribe();
      watch(careful(() => of(1, 2)));
      flush();
      expect(breaker.snapshot()).toMatchObject({ calls: 2, failures: 0 });
    });
  });

  it('of 0 leaves room for what answers at once', () => {
    virtualTime(({ flush }) => {
      const careful = policy({ deadlineMs: 0, retry: retryFailed(steady) });
      expect(watch(careful(() => of(1))).values).toEqual([1]);
      const late = watch(careful(() => timer(1)));
      flush();
      expect(late.ends).toEqual([expect.any(DeadlineError)]);
    });
  });

  it('is kept on a clock that is put back', () => {
    const clock = new CountingScheduler();
    clock.offset = 1_790_000_000_000;
    const { ends } = watch(policy({ deadlineMs: 1000, retry: retryFailed(steady), scheduler: clock })(() => NEVER));
    clock.offset = 0;
    clock.flush();
    expect(clock.frame).toBe(1000);
    expect(ends).toEqual([expect.any(DeadlineError)]);
  });
});

it('does not keep the `job` that it was given, nor its `cost`, of the policy or of a call', () => {
  virtualTime(() => {
    const limiter = createLimiter({ concurrency: 100 });
    const [job, own] = [{ cost: { slots: 2 } }, { cost: { slots: 3 } }];
    const careful = policy({ limiter, job });
    job.cost.slots = 50;
    const call = careful(() => NEVER, { job: own });
    own.cost.slots = 50;
    const seen = [watch(careful(() => NEVER)), watch(call)];
    expect(limiter.snapshot().executing).toBe(5);
    for (const { leave } of seen) leave();
  });
});

describe('with a breaker', () => {
  it('hears the outcome of each attempt, but not of one that the deadline cuts off', () => {
    virtualTime(({ flush, now }) => {
      const breaker = createBreaker({ opens: { minCalls: 100 } });
      const careful = policy({ breaker, retry: retryFailed(steady), deadlineMs: 5000 });
      watch(careful(flaky(now, busy, busy).work));
      flush();
      expect(breaker.snapshot()).toMatchObject({ calls: 3, failures: 2 });
      watch(careful(flaky(now, busy, busy, busy).work));
      flush();
      expect(breaker.snapshot()).toMatchObject({ calls: 6, failures: 5 });
      watch(careful(({ attempt }) => (attempt === 1 ? throwError(() => busy) : concat(of(1), NEVER))));
      flush();
      expect(breaker.snapshot()).toMatchObject({ calls: 7, failures: 6 });
    });
  });

  it('an open one refuses before a permit is asked for, and that is not tried again', () => {
    virtualTime(() => {
      const breaker = createBreaker();
      breaker.trip();
      const limiter = createLimiter({ concurrency: 1 });
      const lease = limiter.tryAcquire()!;
      const { ends } = watch(policy({ breaker, limiter, retry: retryFailed(steady) })(() => of(1)));
      expect(ends).toEqual([expect.any(BreakerOpenError)]);
      expect(limiter.snapshot().queued).toBe(0);
      lease.release();
    });
  });

  it('one that opens during a pause ends the call at once, with its last error as the cause', () => {
    virtualTime(({ now, pending }) => {
      const breaker = createBreaker();
      const { ends } = watch(policy({ breaker, retry: retryFailed(steady) })(flaky(now, busy).work));
      breaker.trip();
      expect(ends).toMatchObject([{ code: 'FLOW_BREAKER_OPEN', retryAfterMs: Infinity, cause: busy }]);
      expect(pending()).toBe(0);
    });
  });

  it('a call that is left gives the place of its probe back, and counts neither way', () => {
    virtualTime(({ advance }) => {
      const breaker = createBreaker({ opens: { minCalls: 1 } });
      const careful = policy({ breaker });
      watch(careful(() => throwError(() => busy)));
      advance(5000);
      const probe = watch(careful(() => NEVER));
      expect(breaker.snapshot().probing).toBe(1);
      probe.leave();
      expect(breaker.snapshot()).toMatchObject({ state: 'halfOpen', probing: 0 });
    });
  });
});

describe('the fallback', () => {
  it('is told the error, its class and the attempts, and answers with as many values as it likes', () => {
    virtualTime(({ flush }) => {
      const told: unknown[] = [];
      const { values, ends } = watch(
        policy({
          retry: retryFailed(steady),
          fallback: (error, { class: failed, attempts }) => {
            told.push(error, failed, attempts);
            return of('from', 'the cache');
          },
        })(() => throwError(() => busy)),
      );
      flush();
      expect(told).toEqual([busy, 'transient', 3]);
      expect([values, ends]).toEqual([['from', 'the cache'], ['complete']]);
    });
  });

  it('answers for the deadline and for an open breaker as well', () => {
    virtualTime(({ flush }) => {
      const breaker = createBreaker();
      const classes: string[] = [];
      const careful = policy({
        breaker,
        deadlineMs: 100,
        retry: retryFailed(steady),
        fallback: (error, { class: failed, attempts }) => {
          classes.push(`${(error as Error).name} ${failed} ${String(attempts)}`);
          return of(0);
        },
      });
      watch(careful(() => NEVER));
      flush();
      breaker.trip();
      watch(careful(() => of(1)));
      expect(classes).toEqual(['DeadlineError fatal 1', 'BreakerOpenError transient 0']);
    });
  });

  it('throws what it has no answer for', () => {
    const careful = policy({
      fallback: (error, { class: failed }) => {
        if (failed === 'fatal') throw error;
        return of('answer');
      },
    });
    const refused = failing(401);
    expect(watch(careful(() => throwError(() => refused))).ends[0]).toBe(refused);
    expect(watch(careful(() => throwError(() => busy))).values).toEqual(['answer']);
  });

  it('is not asked for a cancelled call, nor behind half an answer', () => {
    let asked = 0;
    const careful = policy({
      fallback: () => {
        asked += 1;
        return of('instead');
      },
    });
    const abort = new DOMException('left', 'AbortError');
    expect(watch(careful(() => throwError(() => abort))).ends).toEqual([abort]);
    const half = concat(
      of('half'),
      throwError(() => busy),
    );
    expect(watch(careful(() => half))).toMatchObject({ values: ['half'], ends: [busy] });
    const leaving = new AbortController();
    const left = watch(careful(() => NEVER, { signal: leaving.signal }));
    leaving.abort('enough');
    expect(left.ends).toEqual(['enough']);
    expect(asked).toBe(0);
  });

  it('begins when everything of the call is given back, is held to no deadline, and is aborted with its consumer', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const log: unknown[] = [];
      const { leave, ends } = watch(
        policy({
          limiter,
          deadlineMs: 100,
          retry: retryFailed(steady),
          fallback: (_error, { signal }) => {
            log.push(limiter.executing);
            signal.addEventListener('abort', () => log.push('aborted'));
            return NEVER;
          },
        })(() => NEVER),
      );
      advance(10_000);
      expect([log, ends]).toEqual([[0], []]);
      leave();
      expect(log).toEqual([0, 'aborted']);
    });
  });

  it('may be a promise', async () => {
    const careful = policy({ fallback: () => Promise.resolve('from the cache') });
    await expect(lastValueFrom(careful(() => Promise.reject(busy)))).resolves.toBe('from the cache');
  });
});

describe('leaving', () => {
  it('aborts the attempt, stops the work, frees the slot and clears every timer, at once', () => {
    const clock = new CountingScheduler();
    const limiter = createLimiter({ concurrency: 1, scheduler: clock });
    const log: string[] = [];
    const { leave, ends } = watch(
      policy({ limiter, deadlineMs: 1000, breaker: createBreaker({ scheduler: clock }), scheduler: clock })(({ signal }) => {
        signal.addEventListener('abort', () => log.push('aborted'));
        return NEVER.pipe(finalize(() => log.push('stopped')));
      }),
    );
    leave();
    expect([log, ends, limiter.executing, clock.actions.length]).toEqual([['aborted', 'stopped'], [], 0, 0]);
  });

  it('during a pause or a wait leaves nothing behind', () => {
    const clock = new CountingScheduler();
    const limiter = createLimiter({ concurrency: 1, scheduler: clock });
    const careful = policy({ limiter, scheduler: clock, deadlineMs: 1e6, retry: retryFailed(steady) });
    const pausing = watch(careful(() => throwError(() => busy)));
    const lease = limiter.tryAcquire()!;
    const queued = watch(careful(() => of(1)));
    expect(limiter.snapshot().queued).toBe(1);
    pausing.leave();
    queued.leave();
    lease.release();
    expect([limiter.snapshot().queued, clock.actions.length, queued.ends, pausing.ends]).toEqual([0, 0, [], []]);
  });

  it('from inside the work, or with the first value, is the same as anywhere', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const careful = policy({ limiter });
    const leaving = new Subject<void>();
    const subscription = new Subscription();
    leaving.subscribe(() => {
      subscription.unsubscribe();
    });
    const lease = limiter.tryAcquire()!;
    subscription.add(
      careful(() => {
        leaving.next();
        return NEVER;
      }).subscribe(),
    );
    lease.release();
    expect(limiter.executing).toBe(0);
    await expect(firstValueFrom(careful(() => concat(of('first'), NEVER)))).resolves.toBe('first');
    expect(limiter.executing).toBe(0);
  });

  it('a promise that fails afterwards causes no unhandled rejection', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const { leave } = watch(
      policy({ limiter, retry: retryFailed(steady) })(
        ({ signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => {
              reject(busy);
            });
          }),
      ),
    );
    leave();
    await new Promise((resolve) => setImmediate(resolve));
    expect(limiter.executing).toBe(0);
  });

  it('work that returns its own lease and then times out fails only its own call', async () => {
    const clock = new CountingScheduler();
    const limiter = createLimiter({ concurrency: 1, scheduler: clock });
    const { ends } = watch(
      policy({ limiter, timeoutMs: 10, scheduler: clock })(({ lease, signal }) => {
        lease?.release();
        return new Promise((resolve) => {
          signal.addEventListener('abort', resolve);
        });
      }),
    );
    clock.flush();
    await new Promise((resolve) => setImmediate(resolve));
    expect(ends).toEqual([expect.any(AttemptTimeoutError)]);
  });
});

describe('the signal of a call', () => {
  it('ends it with the signal’s own reason, wherever it is', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const careful = policy({ limiter, retry: retryFailed(steady) });
      for (const work of [() => NEVER, () => throwError(() => busy)]) {
        const leaving = new AbortController();
        const { ends } = watch(careful(work, { signal: leaving.signal }));
        const waiting = watch(careful(() => NEVER, { signal: leaving.signal }));
        leaving.abort('enough');
        expect([ends, waiting.ends]).toEqual([['enough'], ['enough']]);
        expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
        expect(watch(careful(work, { signal: leaving.signal })).ends).toEqual(['enough']);
      }
      advance(1000);
    });
  });

  it('gains one listener for 10,000 calls, and keeps none', () => {
    const session = new AbortController().signal;
    let [listeners, most] = [0, 0];
    const [add, remove] = [session.addEventListener.bind(session), session.removeEventListener.bind(session)];
    session.addEventListener = (...args: Parameters<typeof add>) => {
      most = Math.max(most, ++listeners);
      add(...args);
    };
    session.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners -= 1;
      remove(...args);
    };
    const careful = policy();
    const open = Array.from({ length: 10_000 }, (_, n) => watch(careful(() => (n % 2 === 0 ? of(n) : NEVER), { signal: session })));
    expect(listeners).toBe(1);
    for (const { leave } of open) leave();
    expect([listeners, most]).toEqual([0, 1]);
  });

  it('is not confused with the position that map and mergeMap pass along', () => {
    const careful = policy();
    const { values } = watch(
      of(
        () => of('a'),
        () => of('b'),
      ).pipe(
        map(careful),
        mergeMap((result) => result),
      ),
    );
    expect(values).toEqual(['a', 'b']);
  });
});

describe('its events', () => {
  it('tell of attempts, pauses and the result', () => {
    virtualTime(({ flush, now }) => {
      const events: FlowEvent[] = [];
      const careful = policy({ retry: retryFailed(steady), onEvent: unstamped((event) => events.push(event)) });
      watch(careful(flaky(now, busy).work));
      flush();
      const common = { operator: 'policy', lane: 'default', batchId: 'p0' };
      const call = { ...common, size: 1 };
      const started = { type: 'attemptStarted', ...call, weight: 1, splitDepth: 0, executing: 1 };
      expect(events).toEqual([
        { type: 'accepted', ...common, queued: 1 },
        { ...started, attempt: 1 },
        { type: 'attemptEnded', ...call, attempt: 1, outcome: 'transient', latencyMs: 0 },
        { type: 'retryScheduled', ...common, class: 'transient', size: 1, attempt: 2, delayMs: 100 },
        { ...started, attempt: 2 },
        { type: 'attemptEnded', ...call, attempt: 2, outcome: 'ok', latencyMs: 0 },
        { type: 'settled', ...common, outcome: 'fulfilled', attempts: 2, totalMs: 100 },
      ]);
    });
  });

  it('tell of a call that was left, once, and of one that the deadline cut off', () => {
    virtualTime(({ flush }) => {
      const events: string[] = [];
      const careful = policy({
        deadlineMs: 100,
        fallback: () => of(0),
        onEvent: (event) =>
          events.push(event.type === 'attemptEnded' || event.type === 'settled' ? `${event.type} ${event.outcome}` : event.type),
      });
      watch(careful(() => NEVER)).leave();
      watch(careful(() => NEVER));
      flush();
      expect(events).toEqual([
        ...['accepted', 'attemptStarted', 'attemptEnded cancelled', 'cancelled'],
        ...['accepted', 'attemptStarted', 'attemptEnded cancelled', 'settled rejected'],
      ]);
    });
  });

  it('let a listener leave at any of them', () => {
    for (const type of ['accepted', 'attemptStarted', 'attemptEnded', 'retryScheduled', 'settled'] as const) {
      const clock = new CountingScheduler();
      const limiter = createLimiter({ concurrency: 1, scheduler: clock });
      const leaving = new AbortController();
      const { ends } = watch(
        policy({
          limiter,
          retry: retryFailed(steady),
          scheduler: clock,
          onEvent: (event) => {
            if (event.type === type) leaving.abort('enough');
          },
        })(({ attempt }) => (attempt === 1 ? throwError(() => busy) : of(attempt)), { signal: leaving.signal }),
      );
      clock.flush();
      expect([type, ends, limiter.executing, clock.actions.length]).toEqual([type, ['enough'], 0, 0]);
    }
  });
});

it('sets no timer for work that answers at once', () => {
  const clock = new CountingScheduler();
  watch(policy({ deadlineMs: 1000, scheduler: clock })(() => of(1)));
  expect(clock.delays).toEqual([]);
});

it('keeps the count of calls under way right, whatever they come to', () => {
  virtualTime(({ flush, now }) => {
    const careful = policy({ retry: retryFailed(steady), timeoutMs: 1000 });
    for (let round = 0; round < 50; round++) {
      watch(careful(() => of(1)));
      watch(careful(flaky(now, busy).work));
      watch(careful(() => throwError(() => failing(401))));
      watch(careful(() => NEVER)).leave();
      flush();
    }
    // With calls or retries left over in the count, fewer or more than three would be let through.
    const calls = Array.from({ length: 10 }, () => watch(careful(() => throwError(() => busy))));
    expect(calls.filter(({ ends }) => ends.length === 0)).toHaveLength(3);
    flush();
  });
});

describe('a guard', () => {
  it('is asked before every attempt, with its permit in hand, and what it refuses is neither made nor counted', () => {
    virtualTime(({ flush, now }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const released: string[] = [];
      limiter.onRelease(({ outcome }) => released.push(outcome));
      const asked: string[] = [];
      const made: number[] = [];
      const calls = policy({
        limiter,
        retry: retryFailed(steady),
        guard: ({ attempt }) => {
          asked.push(`${String(now())} ${String(attempt)} ${String(limiter.executing)}`);
          return attempt < 3 || 'enough';
        },
      });
      const { ends } = watch(calls(({ attempt }) => (made.push(attempt), throwError(() => busy))));
      flush();
      expect(asked).toEqual(['0 1 1', '100 2 1', '300 3 1']);
      expect(made).toEqual([1, 2]);
      expect(ends).toMatchObject([{ code: 'FLOW_REFUSED', reason: 'enough', index: 0 }]);
      expect([released, limiter.executing]).toEqual([['error', 'error', 'unused'], 0]);
    });
  });

  it.each<[string, NonNullable<PolicyOptions['guard']>, string]>([
    ['false', () => false, 'FLOW_REFUSED'],
    ['a late no', () => timer(5).pipe(map(() => false)), 'FLOW_REFUSED'],
    ['a stream without an answer', () => timer(5).pipe(take(0)) as Observable<never>, 'FLOW_CALLBACK'],
    ['something that is only like a yes', () => 1 as never, 'FLOW_CALLBACK'],
    [
      'a throw',
      () => {
        throw busy;
      },
      'FLOW_CALLBACK',
    ],
    ['an error', () => throwError(() => busy), 'FLOW_CALLBACK'],
    ['no answer in time', () => NEVER, 'FLOW_ATTEMPT_TIMEOUT'],
  ])('ends the call with %s, which is never tried again', (_what, guard, code) => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      let asked = 0;
      let made = 0;
      const calls = policy({ limiter, retry: retryFailed(steady), timeoutMs: 50, guard: (context) => (asked++, guard(context)) });
      const { ends } = watch(calls(() => of(made++)));
      flush();
      expect(ends).toMatchObject([{ code }]);
      expect([asked, made, limiter.executing]).toEqual([1, 0, 0]);
    });
  });

  it('lets the call go with a late yes, whose time is part of the attempt, and leaves a promise of the work its permit', () => {
    virtualTime(({ advance, flush }) => {
      const limiter = createLimiter({ concurrency: 1, abortGraceMs: 500 });
      const calls = policy({ limiter, timeoutMs: 50, guard: () => timer(20).pipe(map(() => true)) });
      const { ends } = watch(calls(() => new Promise(() => undefined)));
      advance(49);
      expect(ends).toEqual([]);
      advance(1);
      expect(ends).toMatchObject([{ code: 'FLOW_ATTEMPT_TIMEOUT' }]);
      expect(limiter.executing).toBe(1);
      advance(501);
      expect(limiter.executing).toBe(0);
      flush();
    });
  });

  it('is cancelled with its call: its signal aborts, the permit comes back, and its answer starts nothing', () => {
    virtualTime(({ advance, pending }) => {
      const limiter = createLimiter({ concurrency: 1 });
      let made = 0;
      let signal: AbortSignal | undefined;
      const calls = policy({ limiter, guard: (context) => (({ signal } = context), timer(10).pipe(map(() => true))) });
      const { leave } = watch(calls(() => of(made++)));
      advance(5);
      leave();
      expect([signal?.aborted, limiter.executing, pending()]).toEqual([true, 0, 0]);
      advance(10);
      expect(made).toBe(0);
    });
  });

  it('does not outlive the deadline of its call', () => {
    virtualTime(({ flush, pending }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const { ends } = watch(policy({ limiter, guard: () => NEVER })(() => of(1), { deadlineMs: 10 }));
      flush();
      expect(ends).toMatchObject([{ code: 'FLOW_DEADLINE', deadlineMs: 10 }]);
      expect([limiter.executing, pending()]).toEqual([0, 0]);
    });
  });
});

describe('what one call says', () => {
  it('is its name in events, and its own deadline', () => {
    virtualTime(({ flush }) => {
      const names = new Set<string>();
      const onEvent = (event: FlowEvent): void => {
        if ('batchId' in event) names.add(String(event.batchId));
      };
      const calls = policy({ deadlineMs: 100, onEvent });
      const [first, second] = [watch(calls(() => NEVER, { id: 'mine', deadlineMs: 10 })), watch(calls(() => NEVER))];
      flush();
      expect([...first.ends, ...second.ends]).toMatchObject([{ deadlineMs: 10 }, { deadlineMs: 100 }]);
      expect([...names]).toEqual(['mine', 'p1']);
    });
  });
});

describe('permits', () => {
  it('of a further attempt are waited for, however many wait', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1, maxQueued: 1 });
      const calls = policy({ limiter, retry: retryFailed(steady) });
      let attempts = 0;
      const first = watch(calls(() => (++attempts === 1 ? throwError(() => busy) : of('again'))));
      const others = [1, 2, 3].map((n) => watch(calls(() => timer(150).pipe(map(() => n)))));
      flush();
      expect(first.values).toEqual(['again']);
      expect(others.map(({ values }) => values)).toEqual([[1], [2], []]);
      expect(others[2]?.ends).toMatchObject([{ code: 'FLOW_OVERFLOW' }]);
    });
  });

  it('that are free at once do not grow the stack of calls that make calls', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const calls = policy({ limiter });
    let count = 0;
    const next = (): void => {
      if (++count < 20_000) calls(() => of(1)).subscribe(next);
    };
    next();
    expect([count, limiter.executing]).toEqual([20_000, 0]);
  });
});

type Work<R> = (context: { readonly signal: AbortSignal }) => R;

describe('policy', () => {
  it('does not abort work that has failed for a consumer that leaves while its error is classified', () => {
    const stop = new Subject<void>();
    const limiter = createLimiter({ concurrency: 1 });
    let signal: AbortSignal | undefined;
    const careful = policy({
      limiter,
      classify: () => {
        stop.next();
        return { class: 'transient' };
      },
    });
    const work: Work<Observable<never>> = (context) => {
      ({ signal } = context);
      return throwError(() => new Error('no'));
    };
    careful(work).pipe(takeUntil(stop)).subscribe();
    expect([signal?.aborted, limiter.executing]).toEqual([false, 0]);
  });
});

const refused = Object.assign(new Error('status 429'), { status: 429, headers: { 'retry-after': '10' } });
/** A listener that writes down events and outcomes. */
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
