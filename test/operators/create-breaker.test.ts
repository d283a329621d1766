import { EMPTY, firstValueFrom, map, mergeMap, NEVER, Observable, of, Subject, take, takeUntil, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Breaker, BreakerOptions, FlowEvent } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  BreakerOpenError,
  classifyError,
  createBreaker,
  DeadlineError,
  RateLimitError,
} from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

expectNoUnhandledRejections();

const failing = (status: number): Error => Object.assign(new Error(`status ${String(status)}`), { status });
const fails = (error: Error) => (): Observable<never> => throwError(() => error);
const down = failing(503);

function errorOf(result: Observable<unknown>): unknown {
  let found: unknown;
  result.subscribe({ error: (error: unknown) => (found = error) });
  return found;
}

function failTimes(breaker: Breaker, times: number, error: Error = down): void {
  for (let n = 0; n < times; n++) errorOf(breaker.run(fails(error)));
}

/** One that a single failure opens, on a clock of its own. */
function sensitive(options: BreakerOptions = {}) {
  const clock = new CountingScheduler();
  return { clock, breaker: createBreaker({ opens: { minCalls: 1 }, scheduler: clock, ...options }) };
}

describe('what counts', () => {
  it.each([
    ['503', failing(503)],
    ['408', failing(408)],
    ['a connection that broke', Object.assign(new Error('reset'), { code: 'ECONNRESET' })],
    ['a fetch that failed', new TypeError('fetch failed')],
    ['an attempt that timed out', new AttemptTimeoutError('policy', 5)],
  ])('is %s', (_name, error) => {
    const breaker = createBreaker({ classify: classifyError });
    failTimes(breaker, 10, error);
    expect(breaker.snapshot()).toMatchObject({ state: 'open', failures: 10 });
  });

  it.each([
    ['429', failing(429)],
    ['400', failing(400)],
    ['401', failing(401)],
    ['413', failing(413)],
    ['an abort', new DOMException('left', 'AbortError')],
    ['a deadline', new DeadlineError('policy', 5, 5)],
    ['a refusal of another breaker', new BreakerOpenError('createBreaker', 5)],
    ['a refusal of a limiter', new RateLimitError('createLimiter', 'requests', 5)],
    ['an unknown error', new Error('some bug')],
  ])('is not %s', (_name, error) => {
    const breaker = createBreaker({ classify: classifyError });
    failTimes(breaker, 100, error);
    expect(breaker.snapshot()).toMatchObject({ state: 'closed', calls: 0, failures: 0 });
  });

  it('is never a refusal of another breaker: a probe that meets one gives its place back', () => {
    for (const counted of ['transient', 'timeout', undefined] as const) {
      const { clock, breaker } = sensitive(counted && { classify: () => ({ class: counted }) });
      failTimes(breaker, 1);
      clock.frame = 5_000;
      expect(breaker.state).toBe('halfOpen');
      const inner = createBreaker();
      inner.trip();
      expect(errorOf(breaker.run(() => inner.run(() => of(1))))).toBeInstanceOf(BreakerOpenError);
      expect(breaker.snapshot()).toMatchObject({ state: 'halfOpen', probing: 0 });
    }
  });

  it('is looked at when a call fails: a success opens nothing', () => {
    const breaker = createBreaker({ opens: { minCalls: 2 } });
    failTimes(breaker, 1);
    breaker.run(() => of(1)).subscribe();
    expect(breaker.snapshot()).toMatchObject({ state: 'closed', calls: 2, failures: 1 });
    breaker.run(() => of(1)).subscribe();
    failTimes(breaker, 1);
    expect(breaker.snapshot()).toMatchObject({ state: 'open', calls: 4, failures: 2 });
  });

  it('is what `classify` makes of the error, and nothing when it throws', () => {
    const seen: unknown[] = [];
    const breaker = createBreaker({
      classify: (error, context) => {
        seen.push(error, context);
        return { class: 'timeout' };
      },
      scheduler: new CountingScheduler(),
    });
    const odd = new Error('odd');
    failTimes(breaker, 10, odd);
    expect(breaker.state).toBe('open');
    expect(seen.slice(0, 2)).toEqual([odd, { size: 1, attempt: 1, aborted: false, epochMs: 0 }]);
    const broken = createBreaker({
      classify: () => {
        throw new Error('no opinion');
      },
    });
    failTimes(broken, 100);
    expect(broken.snapshot()).toMatchObject({ state: 'closed', calls: 0 });
  });

  it('is a success at the end of the call, and a failure after the first value is one all the same', () => {
    const { breaker } = sensitive({ opens: { minCalls: 2 } });
    const calls = [new Subject<number>(), new Subject<number>()] as const;
    for (const call of calls) breaker.run(() => call).subscribe({ error: () => undefined });
    calls[0].next(1);
    calls[1].next(1);
    expect(breaker.snapshot().calls).toBe(0);
    calls[0].complete();
    expect(breaker.snapshot()).toMatchObject({ calls: 1, failures: 0 });
    calls[1].error(down);
    expect(breaker.state).toBe('open');
  });

  it('is not a call that was left before it answered; one that was left with its first value went well', async () => {
    const { breaker, clock } = sensitive();
    breaker
      .run(() => NEVER)
      .subscribe()
      .unsubscribe();
    expect(breaker.snapshot().calls).toBe(0);
    failTimes(breaker, 1);
    clock.frame = 5_000;
    expect(await firstValueFrom(breaker.run(() => of('first', 'second')))).toBe('first');
    expect(breaker.snapshot()).toMatchObject({ state: 'closed', failures: 0 });
  });
});

describe('an open breaker', () => {
  it('refuses at once, without making the call, and says when to come back', () => {
    const { breaker, clock } = sensitive();
    failTimes(breaker, 1);
    clock.frame = 1_500;
    let calls = 0;
    const error = errorOf(breaker.run(() => of(++calls)));
    expect(error).toBeInstanceOf(BreakerOpenError);
    expect(error).toMatchObject({ code: 'FLOW_BREAKER_OPEN', operator: 'createBreaker', retryAfterMs: 3_500 });
    expect((error as Error).message).toBe('createBreaker: the circuit is open; try again in 3500 ms');
    expect(calls).toBe(0);
  });

  it('refuses promises as well', async () => {
    const { breaker } = sensitive();
    failTimes(breaker, 1);
    await expect(breaker.runAsync(() => Promise.resolve(1))).rejects.toBeInstanceOf(BreakerOpenError);
  });

  it('is half open as soon as its time is over, without any call or timer', () => {
    const { breaker, clock } = sensitive();
    failTimes(breaker, 1);
    expect(breaker.snapshot()).toMatchObject({ state: 'open', retryAfterMs: 5_000 });
    clock.frame = 5_000;
    expect(breaker.state).toBe('halfOpen');
    expect(breaker.snapshot()).toEqual({ state: 'halfOpen', calls: 1, failures: 1, probing: 0, retryAfterMs: 0 });
  });

  it('holds no timer, whatever happens to it', () => {
    const { breaker, clock } = sensitive();
    failTimes(breaker, 3);
    clock.frame = 5_000;
    failTimes(breaker, 1);
    breaker.run(() => of(1)).subscribe({ error: () => undefined });
    breaker.trip();
    breaker.reset();
    expect(clock.delays).toEqual([]);
  });

  it('half opens no later than it would have when the clock is set back', () => {
    const { breaker, clock } = sensitive();
    clock.offset = 1_790_000_000_000;
    failTimes(breaker, 1);
    clock.offset = 0;
    expect(breaker.state).toBe('open');
    clock.frame = 5_000;
    expect(breaker.state).toBe('halfOpen');
  });
});

describe('a probe', () => {
  it('that is unsubscribed gives its place to the next call', () => {
    const { breaker, clock } = sensitive();
    failTimes(breaker, 1);
    clock.frame = 5_000;
    const aborted: boolean[] = [];
    const probe = breaker
      .run(({ signal }) => {
        signal.addEventListener('abort', () => aborted.push(true));
        return NEVER;
      })
      .subscribe();
    expect(errorOf(breaker.run(() => of(1)))).toBeInstanceOf(BreakerOpenError);
    expect(breaker.snapshot().probing).toBe(1);
    probe.unsubscribe();
    expect(aborted).toEqual([true]);
    expect(breaker.snapshot()).toMatchObject({ state: 'halfOpen', probing: 0 });
    breaker.run(() => of(1)).subscribe();
    expect(breaker.state).toBe('closed');
  });

  it.each([
    ['404', failing(404)],
    ['400', failing(400)],
    ['401', failing(401)],
    ['413', failing(413)],
    ['429', failing(429)],
    ['an answer that cannot be read', Object.assign(new Error('no JSON'), { name: 'AI_JSONParseError' })],
  ])('that is refused by the backend itself has shown that it is up: %s', (_name, error) => {
    const { breaker, clock } = sensitive({ classify: classifyError });
    failTimes(breaker, 1);
    clock.frame = 5_000;
    failTimes(breaker, 1, error);
    expect(breaker.snapshot()).toMatchObject({ state: 'closed', calls: 0 });
  });

  it('has to succeed as often as `probes` says, by refusals as well', () => {
    const { breaker, clock } = sensitive({ closes: { probes: 2 } });
    failTimes(breaker, 1);
    clock.frame = 5_000;
    failTimes(breaker, 1, failing(404));
    expect(breaker.state).toBe('halfOpen');
    failTimes(breaker, 1, failing(404));
    expect(breaker.state).toBe('closed');
  });

  it.each([
    ['an abort', new DOMException('left', 'AbortError')],
    ['an unknown error', new Error('who knows')],
    ['a bug', new TypeError('x is not a function')],
    ['an error of this package', new DeadlineError('policy', 5, 5)],
  ])('that says nothing of the backend gives its place back: %s', (_name, error) => {
    const { breaker, clock } = sensitive();
    failTimes(breaker, 1);
    clock.frame = 5_000;
    failTimes(breaker, 1, error);
    expect(breaker.snapshot()).toMatchObject({ state: 'halfOpen', probing: 0, retryAfterMs: 0 });
  });

  it('gives its place back when the classifier throws', () => {
    const { breaker, clock } = sensitive({
      classify: (error) => {
        if (error === down) return { class: 'transient' };
        throw new Error('classifier');
      },
    });
    failTimes(breaker, 1);
    clock.frame = 5_000;
    failTimes(breaker, 1, failing(404));
    expect(breaker.snapshot()).toMatchObject({ state: 'halfOpen', probing: 0 });
  });

  it('closes the circuit when it ends in a 404: of fifty calls at most five are refused', () => {
    virtualTime(({ flush }) => {
      const breaker = createBreaker({ opens: { minCalls: 1 }, openMs: 100 });
      failTimes(breaker, 1);
      const seen: string[] = [];
      const call = () => timer(50).pipe(mergeMap(() => throwError(() => failing(404))));
      for (let at = 0; at < 50; at++) {
        timer(100 + at * 10)
          .pipe(mergeMap(() => breaker.run(call)))
          .subscribe({ error: (error: unknown) => seen.push(error instanceof BreakerOpenError ? 'refused' : 'answered') });
      }
      flush();
      // The others that come while the probe is under way.
      expect(seen.filter((outcome) => outcome === 'refused').length).toBeLessThanOrEqual(5);
    });
  });

  it('that is silent is not waited for longer than the circuit was open', () => {
    const { breaker, clock } = sensitive();
    failTimes(breaker, 1);
    clock.frame = 5_000;
    breaker.run(() => NEVER).subscribe();
    clock.frame = 10_000;
    expect(breaker.snapshot()).toMatchObject({ state: 'halfOpen', probing: 0, retryAfterMs: 0 });
    breaker.run(() => of(1)).subscribe();
    expect(breaker.state).toBe('closed');
  });

  it('that was let through in the place of one that was left is waited for as long', () => {
    const { breaker, clock } = sensitive();
    failTimes(breaker, 1);
    let made = 0;
    const probe = () => {
      made++;
      return NEVER;
    };
    clock.frame = 5_000;
    breaker.run(probe).subscribe().unsubscribe();
    clock.frame = 9_999;
    breaker.run(probe).subscribe();
    clock.frame = 10_000;
    expect(errorOf(breaker.run(probe))).toMatchObject({ retryAfterMs: 4_999 });
    expect(made).toBe(2);
    expect(breaker.snapshot()).toMatchObject({ probing: 1, retryAfterMs: 4_999 });
  });

  it('that calls the breaker itself is refused there, and goes on', () => {
    const { breaker, clock } = sensitive();
    failTimes(breaker, 1);
    clock.frame = 5_000;
    const inside: unknown[] = [];
    breaker
      .run(() => {
        inside.push(errorOf(breaker.run(() => of(1))));
        return of(2);
      })
      .subscribe((value) => inside.push(value));
    expect(inside).toEqual([expect.any(BreakerOpenError), 2]);
    expect(breaker.state).toBe('closed');
  });
});

describe('moved by hand', () => {
  it('it stays open until it is reset', () => {
    const { breaker, clock } = sensitive();
    breaker.trip();
    clock.frame = 1e9;
    const error = errorOf(breaker.run(() => of(1)));
    expect(error).toMatchObject({ retryAfterMs: Infinity });
    expect((error as Error).message).toBe('createBreaker: the circuit is open until it is reset');
    breaker.reset();
    expect(breaker.snapshot()).toEqual({ state: 'closed', calls: 0, failures: 0, probing: 0, retryAfterMs: 0 });
  });
});

it('that is open until it is reset is so from what was saved as JSON too', () => {
  const { breaker } = sensitive({ openMs: Infinity });
  const saved = (): NonNullable<BreakerOptions['restore']> => JSON.parse(JSON.stringify(breaker.save())) as ReturnType<Breaker['save']>;
  const closed = sensitive({ openMs: Infinity, restore: saved() }).breaker;
  failTimes(closed, 1);
  expect(closed.snapshot()).toMatchObject({ state: 'open', retryAfterMs: Infinity });
  failTimes(breaker, 1);
  expect(sensitive({ openMs: Infinity, restore: saved() }).breaker.snapshot()).toMatchObject({ state: 'open', retryAfterMs: Infinity });
});

describe('what was saved', () => {
  const saved = (breaker: Breaker): NonNullable<BreakerOptions['restore']> =>
    JSON.parse(JSON.stringify(breaker.save())) as ReturnType<Breaker['save']>;

  it.each([0, 1, 59_999, 60_000, 3_600_000])('ages while nothing runs: after %i ms both are the same', (gapMs) => {
    const { breaker, clock } = sensitive({ openMs: 60_000 });
    failTimes(breaker, 1);
    const restore = saved(breaker);
    clock.frame += gapMs;
    const restored = createBreaker({ opens: { minCalls: 1 }, openMs: 60_000, scheduler: clock, restore });
    expect(restored.snapshot()).toEqual(breaker.snapshot());
  });

  it('counts as saved just now without a time, or on a clock that was set back', () => {
    const { breaker, clock } = sensitive({ openMs: 60_000 });
    clock.frame = 5000;
    failTimes(breaker, 1);
    const { at: _at, ...older } = saved(breaker);
    const later = saved(breaker);
    clock.frame = 4000;
    for (const restore of [older, later]) {
      const restored = createBreaker({ opens: { minCalls: 1 }, openMs: 60_000, scheduler: clock, restore });
      expect(restored.snapshot()).toMatchObject({ state: 'open', retryAfterMs: 60_000 });
    }
  });
});

describe('its events', () => {
  it('tell every change of state once, with the time it stays open', () => {
    const events: FlowEvent[] = [];
    const { breaker, clock } = sensitive({ onEvent: unstamped((event) => events.push(event)) });
    failTimes(breaker, 3);
    clock.frame = 5_000;
    failTimes(breaker, 2);
    clock.frame = 15_000;
    breaker.run(() => of(1)).subscribe();
    breaker.trip();
    breaker.trip();
    breaker.reset();
    breaker.reset();
    expect(events.map((event) => event.type === 'breakerChanged' && [event.operator, event.state, event.openMs])).toEqual([
      ['createBreaker', 'open', 5_000],
      ['createBreaker', 'halfOpen', 0],
      ['createBreaker', 'open', 10_000],
      ['createBreaker', 'halfOpen', 0],
      ['createBreaker', 'closed', 0],
      ['createBreaker', 'open', Infinity],
      ['createBreaker', 'closed', 0],
    ]);
  });

  it('come before the error of the call that caused them, and may throw', () => {
    const log: string[] = [];
    const { breaker } = sensitive({
      onEvent: () => {
        log.push('event');
        throw new Error('listener');
      },
    });
    breaker.run(fails(down)).subscribe({ error: () => log.push('error') });
    expect(log).toEqual(['event', 'error']);
  });
});

describe('work', () => {
  it('is called afresh for every subscriber, and its errors come through as the same object', () => {
    const breaker = createBreaker();
    let calls = 0;
    const result = breaker.run(() => of(++calls));
    const seen: number[] = [];
    result.subscribe((value) => seen.push(value));
    result.subscribe((value) => seen.push(value));
    expect(seen).toEqual([1, 2]);
    expect(errorOf(breaker.run(fails(down)))).toBe(down);
    expect(
      errorOf(
        breaker.run(() => {
          throw down;
        }),
      ),
    ).toBe(down);
    expect(breaker.snapshot()).toMatchObject({ calls: 4, failures: 2 });
  });

  it('that is a promise answers and fails as one', async () => {
    const breaker = createBreaker();
    await expect(breaker.runAsync(() => Promise.resolve('answer'))).resolves.toBe('answer');
    await expect(breaker.runAsync(() => Promise.reject(down))).rejects.toBe(down);
    await expect(breaker.runAsync(() => of('first', 'last'))).resolves.toBe('last');
    await expect(breaker.runAsync(() => EMPTY)).rejects.toMatchObject({ name: 'EmptyError' });
    await expect(
      breaker.runAsync(() => {
        throw down;
      }),
    ).rejects.toBe(down);
    expect(breaker.snapshot()).toMatchObject({ calls: 5, failures: 2 });
  });

  it('that is no function rejects', async () => {
    await expect(createBreaker().runAsync(5 as never)).rejects.toMatchObject({ code: 'FLOW_CONFIG_INVALID', option: 'work' });
  });

  it('that is a promise and is given up by a signal of its own counts neither way', async () => {
    const breaker = createBreaker({ opens: { inARow: 1 } });
    const leaving = new AbortController();
    const result = breaker.runAsync(
      () =>
        new Promise((_resolve, reject) => {
          leaving.signal.addEventListener('abort', () => {
            reject(leaving.signal.reason as DOMException);
          });
        }),
    );
    leaving.abort();
    await expect(result).rejects.toBe(leaving.signal.reason);
    expect(breaker.snapshot()).toMatchObject({ state: 'closed', calls: 0 });
  });

  it('is shared: what one caller finds out keeps all others from calling', () => {
    virtualTime(({ advance }) => {
      const breaker = createBreaker();
      let calls = 0;
      const ask = breaker.run(() => {
        calls += 1;
        return timer(10).pipe(
          map(() => {
            throw down;
          }),
        );
      });
      const refusals: unknown[] = [];
      for (let n = 0; n < 10; n++) ask.subscribe({ error: () => undefined });
      advance(10);
      for (let n = 0; n < 1_000; n++) ask.subscribe({ error: (error: unknown) => refusals.push(error) });
      expect([calls, refusals.length]).toEqual([10, 1_000]);
      advance(5_000);
      for (let n = 0; n < 1_000; n++) ask.subscribe({ error: () => undefined });
      expect(calls).toBe(11);
      advance(10);
    });
  });

  it('runs in virtual time as on a host clock that starts in 1970', () => {
    const openings = [0, 1_790_000_000_000].map((offset) => {
      const { breaker, clock } = sensitive();
      clock.offset = offset;
      failTimes(breaker, 1);
      clock.frame = 4_999;
      const early = breaker.state;
      clock.frame = 5_000;
      return [early, breaker.state];
    });
    expect(openings).toEqual([
      ['open', 'halfOpen'],
      ['open', 'halfOpen'],
    ]);
  });
});

it('counts the calls of the last 30 s, however many there are', () => {
  const { breaker, clock } = sensitive({ opens: { minCalls: Infinity } });
  for (let n = 0; n < 100_000; n++) {
    clock.frame = n;
    breaker.run(() => of(n)).subscribe();
  }
  const { calls } = breaker.snapshot();
  expect(calls).toBeGreaterThan(27_000);
  expect(calls).toBeLessThanOrEqual(30_000);
});

it('stops an Observable that emits while it is subscribed to', () => {
  let emitted = 0;
  const endless = new Observable<number>((subscriber) => {
    while (!subscriber.closed && emitted < 1e6) subscriber.next(emitted++);
  });
  createBreaker()
    .run(() => endless)
    .pipe(take(3))
    .subscribe();
  expect(emitted).toBe(3);
});

const busy = Object.assign(new Error('status 503'), { status: 503 });

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
