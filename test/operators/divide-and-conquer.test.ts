import { defer, delay, from, map, mergeMap, NEVER, of, Subject, throwError, timer } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
import { describe, expect, it } from 'vitest';
import type {
  BatchMapFromOptions,
  BatchWork,
  CallContext,
  DivideOptions,
  FlowEvent,
  RetryOptions,
  Settled,
} from '../../operators/index.js';
import {
  AttemptTimeoutError,
  batchMap,
  CallbackError,
  classifyError,
  createLimiter,
  DeadlineError,
  robust,
  SplitLimitError,
  sequentialSearch,
} from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';
import { wholeList } from '../support/whole-list.js';

const failure = (fields: object, message = 'no'): Error => Object.assign(new Error(message), fields);
const badRequest = failure({ status: 400 });
const range = (size: number): number[] => Array.from({ length: size }, (_, i) => i);

/** Work that fails when one of its items is bad, and what it was sent. */
function poisoned(given: readonly number[], error: (items: readonly number[]) => unknown = () => badRequest) {
  const sent: (readonly number[])[] = [];
  const bad = new Set(given);
  const work: BatchWork<number, number> = (items) => {
    sent.push(items);
    return items.some((item) => bad.has(item)) ? throwError(() => error(items) as Error) : of(items.map((item) => item * 10));
  };
  return { work, sent };
}

/** Errors of SDKs are read, calls repeated, and bad items looked for in all parts at once or one part after the other. */
function repairing(strategy: 'parallel' | 'sequential' = 'parallel', divide: DivideOptions = {}, retry: RetryOptions = {}) {
  const search = strategy === 'sequential' ? { strategy: sequentialSearch() } : {};
  return { classify: classifyError, repair: robust({ retry, divide: { ...search, ...divide } }) };
}

/** Runs to the end at once. */
function run<R>(work: BatchWork<number, R>, items: readonly number[], options: BatchMapFromOptions<number> = {}): Settled<number, R>[] {
  let settled: Settled<number, R>[] | undefined;
  wholeList(work, { ...repairing(), ...options })(items).subscribe((list) => (settled = list));
  if (settled === undefined) throw new Error('there is no result yet');
  return settled;
}

const inputs = (settled: readonly Settled<number, unknown>[], status: string): number[] =>
  settled.filter((one) => one.status === status).map(({ input }) => input);

/** Runs a test in virtual time: `asyncScheduler`, the default, is virtual in it. */
function virtually(test: () => void): void {
  new TestScheduler((actual, expected) => {
    expect(actual).toEqual(expected);
  }).run(test);
}

describe('a list that is cut up', () => {
  it('answers in the order of the items, whatever the order of the calls', async () => {
    const work: BatchWork<number, number> = (items) =>
      items.length > 1 ? throwError(() => badRequest) : of(items).pipe(delay(items[0] === 0 ? 5 : 1));
    const settled = await new Promise<Settled<number, number>[]>((resolve) => {
      wholeList(work, repairing())([0, 1, 2]).subscribe(resolve);
    });
    expect(settled.map(({ input, index, status, attempts }) => [input, index, status, attempts])).toEqual(
      range(3).map((i) => [i, i, 'fulfilled', 2]),
    );
  });

  it('answers at once when the work does', () => {
    const { work, sent } = poisoned([2]);
    expect(run(work, range(5))).toMatchObject([{ value: 0 }, { value: 10 }, { reason: badRequest, id: '2' }, { value: 30 }, { value: 40 }]);
    expect(sent[0]).toEqual(range(5));
  });

  it('takes promises, and a throw for a failed call', async () => {
    const work: BatchWork<number, number> = (items) => {
      if (items.length > 2) throw badRequest;
      return items.includes(3) ? Promise.reject(badRequest) : Promise.resolve([...items]);
    };
    const settled = await new Promise<Settled<number, number>[]>((resolve) => {
      wholeList(work, repairing())(range(6)).subscribe(resolve);
    });
    expect(inputs(settled, 'rejected')).toEqual([3]);
  });

  it('makes no call and an empty list of no items', () => {
    const { work, sent } = poisoned([]);
    expect(run(work, [])).toEqual([]);
    expect(sent).toEqual([]);
  });

  it('leaves nothing on the scheduler', () => {
    const scheduler = new CountingScheduler();
    const { work } = poisoned([3]);
    run(work, range(8), { scheduler });
    expect(scheduler.actions).toHaveLength(0);
  });

  it('needs no deep stack for 20,000 parts', () => {
    const { work, sent } = poisoned([5], () => badRequest);
    const settled = run(work, range(20_000), repairing('parallel', { parts: Infinity }));
    expect(inputs(settled, 'rejected')).toEqual([5]);
    expect(sent).toHaveLength(20_001);
  });

  it('needs no deep stack for a search of 2,000 calls', () => {
    const bad = range(1_000);
    const { work, sent } = poisoned(bad);
    expect(inputs(run(work, bad, repairing('sequential')), 'rejected')).toEqual(bad);
    expect(sent).toHaveLength(2_000);
  });
});

describe('leaving', () => {
  it.each(['parallel', 'sequential'] as const)('stops everything: %s', (strategy) => {
    const signals: AbortSignal[] = [];
    const work: BatchWork<number, number> = (items, { signal }) => {
      signals.push(signal);
      return items.length === 8 ? throwError(() => badRequest) : NEVER;
    };
    const seen: unknown[] = [];
    const subscription = wholeList(
      work,
      repairing(strategy),
    )(range(8)).subscribe({
      next: (v) => seen.push(v),
      error: (e: unknown) => seen.push(e),
    });
    const started = signals.length;
    expect(started).toBe(strategy === 'parallel' ? 5 : 2);
    subscription.unsubscribe();
    expect(signals.slice(1).every(({ aborted, reason }) => aborted && (reason as Error).name === 'AbortError')).toBe(true);
    expect(signals).toHaveLength(started);
    expect(seen).toEqual([]);
  });
});

describe('what an error means comes first', () => {
  /** A 429 is not waited out: it ends its call. */
  const finalRefusals = { maxThrottledMs: 0 };
  const behind = (cause: unknown): Error => new Error('embedding failed', { cause });
  const refusals: [string, Error, number][] = [
    ['429', failure({ status: 429 }), 1],
    ['500', failure({ status: 500 }), 3],
    ['503', failure({ status: 503 }), 3],
    ['529', failure({ status: 529 }), 3],
    ['a refused connection', failure({ code: 'ECONNREFUSED' }), 3],
    ['a failed fetch', failure({ name: 'TypeError' }, 'fetch failed'), 3],
    ['401', failure({ status: 401 }), 1],
    ['403', failure({ status: 403 }), 1],
    ['404', failure({ status: 404 }), 1],
    ['an abort by another signal', failure({ name: 'AbortError' }), 1],
    [
      'a 429 of the OpenAI SDK',
      failure({ status: 429, code: 'rate_limit_exceeded', type: 'tokens', headers: new Headers({ 'retry-after-ms': '20' }) }),
      1,
    ],
    ['an exhausted quota', failure({ status: 429, code: 'insufficient_quota', error: { code: 'insufficient_quota' } }), 1],
    ['a wrong key', failure({ status: 401, code: 'invalid_api_key', type: 'invalid_request_error' }), 1],
    ['an overload inside a stream', failure({ error: { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } } }), 3],
    ['a 503 of axios', failure({ code: 'ERR_BAD_RESPONSE', response: { status: 503, headers: {} } }), 3],
    ['a 401 of axios', failure({ code: 'ERR_BAD_REQUEST', response: { status: 401, data: { error: { message: 'no' } } } }), 1],
    ['a 500 the AI SDK gave up on', failure({ lastError: failure({ statusCode: 500 }), errors: [failure({ statusCode: 500 })] }), 3],
    ['a 503 in the words of Google', failure({ status: 'UNAVAILABLE', code: 503 }), 3],
    ['a 429 behind an error', behind(failure({ status: 429 })), 1],
    ['a 502 two behind', behind(behind(failure({ statusCode: 502 }))), 3],
    ['a 401 two behind', behind(behind(failure({ response: { status: 401 } }))), 1],
    ['a connection that was reset, behind fetch', behind(failure({ cause: failure({ code: 'ECONNRESET' }) }, 'fetch failed')), 3],
    ['a 500 among several', new AggregateError([failure({ status: 400 }), failure({ status: 500 })]), 3],
  ];

  it.each(refusals)('%s is never split, under either strategy', (_name, error, calls) => {
    for (const strategy of ['parallel', 'sequential'] as const) {
      virtually(() => {
        const { work, sent } = poisoned([3], () => error);
        let settled: Settled<number, number>[] = [];
        wholeList(work, repairing(strategy, {}, finalRefusals))(range(8)).subscribe((list) => (settled = list));
        timer(120_000).subscribe(() => {
          expect(sent).toEqual(Array(calls).fill(range(8)));
          expect(settled.map((one) => one.status === 'rejected' && one.reason)).toEqual(Array(8).fill(error));
        });
      });
    }
  });

  it.each(refusals)('%s is never split by batchMap', (_name, error, calls) => {
    virtually(() => {
      const { work, sent } = poisoned([3], () => error);
      const reasons: unknown[] = [];
      from(range(8))
        .pipe(batchMap(work, { ...repairing('parallel', {}, finalRefusals), maxSize: 8 }))
        .subscribe((one) => reasons.push(one.status === 'rejected' && one.reason));
      timer(120_000).subscribe(() => {
        expect(sent).toEqual(Array(calls).fill(range(8)));
        expect(reasons).toEqual(Array(8).fill(error));
      });
    });
  });

  it.each(refusals.filter(([name]) => name.includes('429')))('%s that is waited out is sent whole again', (_name, error) => {
    for (const strategy of ['parallel', 'sequential'] as const) {
      virtually(() => {
        const sent: (readonly number[])[] = [];
        let settled: Settled<number, number>[] = [];
        const work: BatchWork<number, number> = (items) => (sent.push(items) < 5 ? throwError(() => error) : of(items));
        wholeList(work, repairing(strategy))(range(8)).subscribe((list) => (settled = list));
        timer(120_000).subscribe(() => {
          expect(sent).toEqual(Array(5).fill(range(8)));
          expect(inputs(settled, 'fulfilled')).toEqual(range(8));
        });
      });
    }
  });

  it('a 400 for a wrong model or key costs one call, not twice as many as items', () => {
    for (const code of ['model_not_found', 'invalid_api_key']) {
      const error = failure({ status: 400, code });
      const { work, sent } = poisoned(range(20), () => error);
      expect(inputs(run(work, range(20)), 'rejected')).toHaveLength(20);
      expect(sent).toHaveLength(1);
    }
  });

  it('an attempt that takes too long is repeated, not split', () => {
    virtually(() => {
      const sizes: number[] = [];
      const work: BatchWork<number, number> = (items) => {
        sizes.push(items.length);
        return NEVER;
      };
      let settled: Settled<number, number>[] = [];
      wholeList(work, { ...repairing(), timeoutMs: 100 })(range(4)).subscribe((list) => (settled = list));
      timer(60_000).subscribe(() => {
        expect(sizes).toEqual([4, 4, 4]);
        expect(settled.every((one) => one.status === 'rejected' && one.reason instanceof AttemptTimeoutError)).toBe(true);
      });
    });
  });

  it('a 429 of a part is repeated as that part, and the others go on', () => {
    for (const strategy of ['parallel', 'sequential'] as const) {
      virtually(() => {
        const sent: string[] = [];
        let throttled = 0;
        const work: BatchWork<number, number> = (items) => {
          sent.push(items.join(''));
          if (items.length < 8 && throttled++ === 0) return throwError(() => failure({ status: 429 }));
          return items.includes(6) ? throwError(() => badRequest) : of([...items]);
        };
        let settled: Settled<number, number>[] = [];
        wholeList(work, repairing(strategy))(range(8)).subscribe((list) => (settled = list));
        timer(60_000).subscribe(() => {
          expect(inputs(settled, 'rejected')).toEqual([6]);
          expect(sent.filter((items) => items === sent[1])).toHaveLength(2);
        });
      });
    }
  });
});

describe('bad items', () => {
  it('a bad half does not cancel its sibling', async () => {
    // Recursion by switchMap does: the second part to be sent ends the first.
    const ended: string[] = [];
    const work: BatchWork<number, number> = (items, { signal }) => {
      if (items.length === 4) return throwError(() => badRequest);
      signal.addEventListener('abort', () => ended.push(`${items.join('')} aborted`));
      return items.includes(3) ? timer(1).pipe(mergeMap(() => throwError(() => badRequest))) : of([...items]).pipe(delay(5));
    };
    const settled = await new Promise<Settled<number, number>[]>((resolve) => {
      wholeList(work, repairing('parallel', { parts: 2 }))(range(4)).subscribe(resolve);
    });
    expect(inputs(settled, 'fulfilled')).toEqual([0, 1, 2]);
    expect(ended).toEqual([]);
  });

  it('get through within a budget, and no good item is blamed when it is spent', () => {
    for (const strategy of ['parallel', 'sequential'] as const) {
      const { work, sent } = poisoned([0, 5, 10, 15]);
      const settled = run(work, range(16), repairing(strategy, { maxCalls: 6 }));
      expect(sent.length).toBeLessThanOrEqual(6);
      const givenUp = settled.filter((one) => one.status === 'rejected' && one.reason instanceof SplitLimitError);
      expect(givenUp.length).toBeGreaterThan(0);
      for (const one of settled) {
        if (one.status === 'rejected' && one.reason === badRequest) expect([0, 5, 10, 15]).toContain(one.input);
        else if (one.status === 'rejected') expect(one.reason).toMatchObject({ maxCalls: 6, cause: badRequest });
      }
    }
  });

  it.each(['parallel', 'sequential'] as const)('report how many items the error named, also those that have left: %s', (strategy) => {
    const told: unknown[] = [];
    const scheduler = new CountingScheduler();
    const work: BatchWork<number, number> = (items) =>
      timer(2, scheduler).pipe(
        map((): readonly number[] => {
          if (items.includes(0)) throw Object.assign(new Error('input[0] is invalid'), { status: 400 });
          return items;
        }),
      );
    const onEvent = (event: FlowEvent) => {
      if (event.type === 'blamed') told.push(event.blamed);
    };
    const deadlineMs = (item: number) => (item === 0 ? 1 : Infinity);
    const options = { ...repairing(strategy, {}), classify: classifyError, deadlineMs, scheduler, onEvent };
    wholeList(work, options)(range(4)).subscribe();
    scheduler.flush();
    expect(told).toEqual([1]);
  });

  it.each(['parallel', 'sequential'] as const)('under a limiter every part asks for a permit: %s', (strategy) => {
    const limiter = createLimiter({ concurrency: 1 });
    let most = 0;
    const work: BatchWork<number, number> = (items) =>
      defer(() => {
        most = Math.max(most, limiter.executing);
        return items.includes(3) ? throwError(() => badRequest) : of([...items]);
      });
    const settled = run(work, range(8), { limiter, ...repairing(strategy) });
    expect(inputs(settled, 'rejected')).toEqual([3]);
    expect(most).toBe(1);
    expect(limiter.executing).toBe(0);
  });

  it('too large a batch is cut by weight, as the numbers in the error ask for', () => {
    for (const strategy of ['parallel', 'sequential'] as const) {
      const weights: number[] = [];
      const work: BatchWork<number, number> = (items, { weight }) => {
        weights.push(weight);
        return weight > 100 ? throwError(() => failure({ status: 400 }, `Requested ${String(weight)} tokens, max 100`)) : of([...items]);
      };
      expect(inputs(run(work, Array<number>(8).fill(50), { weigh: (item) => item, ...repairing(strategy) }), 'fulfilled')).toHaveLength(8);
      expect(weights).toEqual([400, 100, 100, 100, 100]);
    }
  });

  it('a part of a search that turns out too large goes its own way, and the rest is not forgotten', () => {
    const sent: string[] = [];
    const work: BatchWork<number, number> = (items) => {
      sent.push(items.join(''));
      if (items.length === 8) return throwError(() => badRequest);
      return items.length === 4 ? throwError(() => failure({ status: 413 })) : of([...items]);
    };
    expect(inputs(run(work, range(8), repairing('sequential')), 'fulfilled')).toEqual(range(8));
    expect(sent).toEqual(['01234567', '0123', '01', '23', '4567', '45', '67']);
  });

  it('one whose answer names it does not stand in for the one that made the batch fail', () => {
    // Item 0 is rejected in an answer that succeeds, so it is unknown whether it or item 1 made the first call fail.
    const work: BatchWork<number, number> = (items) =>
      items.length === 2 ? throwError(() => badRequest) : of(items.map((item) => (item === 0 ? badRequest : item)) as number[]);
    const settled = run(work, [0, 1], repairing('sequential', { strategy: sequentialSearch() }));
    expect(inputs(settled, 'fulfilled')).toEqual([1]);
  });

  it('that are only inferred are sent alone, and have an error of their own', () => {
    const { work, sent } = poisoned([3], (items) => failure({ status: 400 }, items.join('')));
    const settled = run(work, range(4), repairing('sequential', { strategy: sequentialSearch() }));
    expect((settled[3] as { reason: Error }).reason.message).toBe('3');
    expect(sent).toHaveLength(4);
    expect(inputs(settled, 'fulfilled')).toEqual([0, 1, 2]);
  });

  it('no item is blamed when items that failed together succeed apart', () => {
    for (const strategy of ['parallel', 'sequential'] as const) {
      const work: BatchWork<number, number> = (items) => (items.length === 4 ? throwError(() => badRequest) : of([...items]));
      expect(inputs(run(work, range(4), repairing(strategy)), 'fulfilled')).toEqual(range(4));
    }
  });
});

describe('work that fails whatever it is given', () => {
  const broken = (size: number, options: BatchMapFromOptions<number>, error: (items: readonly number[]) => unknown) => {
    const { work, sent } = poisoned(range(size), error);
    const settled = run(work, range(size), options);
    expect(inputs(settled, 'rejected')).toEqual(range(size));
    return { calls: sent.length, reasons: settled.map((one) => (one as { reason: unknown }).reason) };
  };
  const same = new Error('the key is missing');

  it.each([
    ['parallel', 20, 5],
    ['parallel', 100, 5],
    ['sequential', 20, 8],
    ['sequential', 100, 10],
  ] as const)('is found out: %s, %d items, %d calls', (strategy, size, calls) => {
    const found = broken(size, repairing(strategy), () => same);
    expect(found.calls).toBe(calls);
    expect(found.reasons).toEqual(Array(size).fill(same));
  });

  it('is found out when every error is a new one that looks the same but for the size of its call', () => {
    expect(broken(100, {}, (items) => new Error(`${String(items.length)} rows and no connection`)).calls).toBe(5);
  });

  it.each<[string, (items: readonly number[]) => unknown]>([
    ['an error that names the item', () => failure({ status: 400 }, 'input[0] is empty')],
    ['a status of the item', () => badRequest],
    ['a message of its own', (items) => new Error(`${items.map((item) => `row-${String(item)}`).join()} cannot be read`)],
  ])('is taken for bad items when each has %s', (_name, error) => {
    for (const strategy of ['parallel', 'sequential'] as const) {
      const { reasons } = broken(20, repairing(strategy), error);
      for (const reason of reasons) expect(reason).not.toBeInstanceOf(SplitLimitError);
    }
    const { work } = poisoned([...range(19)], error);
    expect(inputs(run(work, range(20)), 'fulfilled')).toEqual([19]);
  });

  it('is not what it is once something has succeeded, or an error has said what it is about', () => {
    // One of the four parts has good items only; what is bad in the others is found item by item.
    for (let part = 0; part < 4; part++) {
      const good = range(20).filter((item) => item % 5 === 1 || Math.floor(item / 5) === part);
      const bad = range(20).filter((item) => !good.includes(item));
      const { work } = poisoned(bad, () => same);
      expect(inputs(run(work, range(20)), 'fulfilled')).toEqual(good);
    }
    for (const strategy of ['parallel', 'sequential'] as const) {
      for (let good = 1; good < 20; good++) {
        const afterRefusal = poisoned(
          range(20).filter((item) => item !== good),
          (items) => (items.includes(0) ? badRequest : same),
        );
        expect(inputs(run(afterRefusal.work, range(20), repairing(strategy)), 'fulfilled')).toEqual([good]);
      }
    }
  });

  it('costs as many calls as there are parts, and one, when a bug in the work is no programming error', () => {
    expect(broken(20, {}, () => new Error('x')).calls).toBe(5);
    expect(broken(20, {}, () => new TypeError('x')).calls).toBe(1);
    expect(broken(20, {}, () => new RangeError('x')).calls).toBe(1);
    expect(broken(20, {}, () => new ReferenceError('x')).calls).toBe(1);
  });

  it('five bad items in a hundred cost five results when their fault is recognised, whatever is said of them', () => {
    for (const message of ['forbidden words', 'item 3 is empty', '']) {
      for (let seed = 0; seed < 50; seed++) {
        const bad = range(5).map((i) => (i * 20 + seed * (7 + i)) % 100);
        const { work } = poisoned(bad, () => failure({ status: 400 }, message));
        const settled = run(work, range(100), repairing('parallel', { maxCalls: 200 }));
        expect(inputs(settled, 'rejected')).toEqual([...new Set(bad)].sort((a, b) => a - b));
      }
    }
  });

  it('does not stop what is under way', async () => {
    const answers = new Subject<number>();
    const work: BatchWork<number, number> = (items) => {
      // The last part of the second level answers late, and with a result.
      if (items.includes(19) && items.length < 5) return answers.pipe(mergeMap(() => of([...items])));
      return throwError(() => same);
    };
    const result = new Promise<Settled<number, number>[]>((resolve) => {
      wholeList(work, { ...repairing(), concurrency: 16 })(range(20)).subscribe(resolve);
    });
    answers.next(1);
    answers.complete();
    const settled = await result;
    expect(settled).toHaveLength(20);
    expect(inputs(settled, 'rejected').length).toBeGreaterThanOrEqual(18);
  });
});

describe('callbacks, deadlines and telemetry', () => {
  it('reject the item they throw at', () => {
    const { work } = poisoned([]);
    const fault = new Error('weigh broke');
    const settled = run(work, [1, 2], {
      weigh: (item) => {
        if (item === 1) throw fault;
        return 1;
      },
    });
    expect(settled[0]).toMatchObject({ status: 'rejected', attempts: 0 });
    expect((settled[0] as { reason: unknown }).reason).toBeInstanceOf(CallbackError);
    expect(settled[1]).toMatchObject({ status: 'fulfilled' });
  });

  it('name items by id, also in blame', () => {
    const { work, sent } = poisoned([7]);
    const settled = run(work, range(20), {
      id: (item) => `doc ${String(item)}`,
      classify: () => ({ class: 'itemFault', blame: ['doc 7'] }),
    });
    expect(sent).toHaveLength(2);
    expect(settled[7]).toMatchObject({ status: 'rejected', id: 'doc 7' });
  });

  it('reach items that wait for their turn in a search', () => {
    virtually(() => {
      const work: BatchWork<number, number> = (items) =>
        items.length === 4 ? throwError(() => badRequest) : of([...items]).pipe(delay(50));
      let settled: Settled<number, number>[] = [];
      wholeList(work, { deadlineMs: (item) => (item === 3 ? 20 : 1000), ...repairing('sequential') })(range(4)).subscribe(
        (list) => (settled = list),
      );
      timer(1000).subscribe(() => {
        expect(inputs(settled, 'fulfilled')).toEqual([0, 1, 2]);
        expect((settled[3] as { reason: unknown }).reason).toBeInstanceOf(DeadlineError);
        expect(settled[3]?.attempts).toBe(1);
      });
    });
  });

  it('tell every step under its own name, and never an item', () => {
    const { work } = poisoned([2]);
    const events: FlowEvent[] = [];
    run(work, range(4), { onEvent: unstamped((event) => events.push(event)), ...repairing('sequential') });
    expect(new Set(events.map(({ operator }) => operator))).toEqual(new Set(['batchMapFrom']));
    expect(events.filter(({ type }) => type === 'split')).toMatchObject([{ size: 4, parts: 2, depth: 1 }]);
    expect(events.filter(({ type }) => type === 'attemptStarted').map((event) => (event as { splitDepth: number }).splitDepth)).toEqual([
      0, 1, 2, 1,
    ]);
    expect(events.filter(({ type }) => type === 'settled')).toHaveLength(4);
    expect(events.at(-1)).toEqual({ type: 'drained', operator: 'batchMapFrom' });
  });

  it('a listener may leave in the middle of a step', () => {
    const slow = new Subject<never>();
    const sent: number[] = [];
    const work: BatchWork<number, number> = (items) => {
      sent.push(items.length);
      return items.length === 2 ? slow : throwError(() => badRequest);
    };
    const seen: unknown[] = [];
    const subscription = wholeList(work, {
      ...repairing('sequential'),
      onEvent: ({ type }) => {
        if (type === 'settled') subscription.unsubscribe();
      },
    })(range(4)).subscribe((settled) => seen.push(settled));
    slow.error(badRequest);
    expect(subscription.closed).toBe(true);
    expect(sent).toEqual([4, 2, 1]);
    expect(seen).toEqual([]);
  });

  it('reads the numbers of the call it made', () => {
    const told: Pick<CallContext, 'attempt' | 'splitDepth' | 'batchId' | 'weight'>[] = [];
    const work: BatchWork<number, number> = (items, { attempt, splitDepth, batchId, weight }) => {
      told.push({ attempt, splitDepth, batchId, weight });
      return items.length > 1 ? throwError(() => badRequest) : of([...items]);
    };
    run(work, [1, 2], { weigh: (item) => item });
    expect(told).toEqual([
      { attempt: 1, splitDepth: 0, batchId: 'b0', weight: 3 },
      { attempt: 1, splitDepth: 1, batchId: 'b0', weight: 1 },
      { attempt: 1, splitDepth: 1, batchId: 'b0', weight: 2 },
    ]);
  });
});
