import { setImmediate as turn } from 'node:timers/promises';
import { config, from, map, merge, Observable, of, Subject, takeUntil, throwError, timer } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Settled } from '../../operators/index.js';
import { bulkheadMap, createLimiter, inputOrder, isFlowError } from '../../operators/index.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

type Work<T, R> = (item: T, context: { readonly signal: AbortSignal; readonly index: number }) => R;
interface Common {
  readonly onEvent?: (event: FlowEvent) => void;
  readonly timeoutMs?: number;
  readonly concurrency?: number;
}
const both = {
  bulkheadMap: <T, R>(work: Work<T, R>, options: Common = {}) => bulkheadMap(work, options),
  'bulkheadMap, one per key': <T, R>(work: Work<T, R>, options: Common = {}) => bulkheadMap(work, { key: () => 1, perKey: 1, ...options }),
};
const names = ['bulkheadMap', 'bulkheadMap, one per key'] as const;

/** What came of each item, and how the stream ended. */
function watch<T, R>(stream: Observable<Settled<T, R>>) {
  const seen: string[] = [];
  const subscription = stream.subscribe({
    next: (settled) =>
      seen.push(settled.status === 'fulfilled' ? String(settled.value) : `${String(settled.input)}: ${codeOf(settled.reason)}`),
    error: (error: unknown) => seen.push(`error: ${codeOf(error)}`),
    complete: () => seen.push('complete'),
  });
  return { seen, subscription };
}

function codeOf(error: unknown): string {
  return isFlowError(error) ? error.code : error instanceof Error ? error.message : String(error);
}

const withTeardown = (teardown: () => void): Observable<never> => new Observable(() => teardown);
const broken = (): never => {
  throw new Error('the teardown');
};

let reported: string[] = [];
beforeEach(() => {
  reported = [];
  config.onUnhandledError = (error) => reported.push(String(error));
});
afterEach(() => {
  config.onUnhandledError = null;
});
expectNoUnhandledRejections();

describe('items with keys', () => {
  it('never run more of a key than `perKey`, when the only one that waits is dropped for another of its key', () => {
    interface Job {
      readonly name: string;
      readonly key: string;
    }
    const jobs = new Subject<Job>();
    const ends = new Map<string, Subject<string>>();
    const running = new Set<string>();
    let most = 0;
    const work = ({ name, key }: Job): Observable<string> => {
      const end = new Subject<string>();
      ends.set(name, end);
      if (key === 'a') most = Math.max(most, running.add(name).size);
      return end;
    };
    const { seen } = watch(
      jobs.pipe(
        bulkheadMap(work, {
          key: ({ key }) => key,
          perKey: 1,
          concurrency: 2,
          maxQueued: 1,
          overflow: 'dropOldest',
        }),
        map((settled) => ({ ...settled, input: settled.input.name })),
      ),
    );
    const end = (name: string): void => {
      running.delete(name);
      ends.get(name)?.next(name);
      ends.get(name)?.complete();
    };
    jobs.next({ name: 'x', key: 'x' });
    jobs.next({ name: 'y', key: 'y' });
    jobs.next({ name: 'a1', key: 'a' });
    jobs.next({ name: 'a2', key: 'a' });
    end('x');
    end('y');
    jobs.next({ name: 'a3', key: 'a' });
    jobs.complete();
    end('a2');
    end('a3');
    expect([most, seen]).toEqual([1, ['a1: FLOW_OVERFLOW', 'x', 'y', 'a2', 'a3', 'complete']]);
  });
});

describe.each(names)('%s and a teardown that throws', (name) => {
  it('settles the item that timed out, goes on, and lets RxJS report what was thrown', () => {
    virtualTime(({ advance, flush }) => {
      const work = (item: string): Observable<string> => (item === 'a' ? withTeardown(broken) : of(item));
      const { seen } = watch(of('a', 'b').pipe(both[name](work, { timeoutMs: 5, concurrency: 1 })));
      advance(5);
      expect(seen).toEqual(['a: FLOW_ATTEMPT_TIMEOUT', 'b', 'complete']);
      flush();
      expect(reported.map((error) => /the teardown/.test(error))).toEqual([true]);
    });
  });

  it.each(['completes', 'fails'] as const)('goes on when the inner stream %s', (how) => {
    virtualTime(({ flush }) => {
      const work = (item: string): Observable<string> =>
        new Observable((subscriber) => {
          subscriber.next(item);
          timer(1).subscribe(() => {
            if (how === 'fails') subscriber.error(new Error('no'));
            else subscriber.complete();
          });
          return broken;
        });
      const { seen } = watch(of('a', 'b').pipe(both[name](work, { concurrency: 1 })));
      flush();
      expect(seen).toEqual(how === 'fails' ? ['a: no', 'b: no', 'complete'] : ['a', 'b', 'complete']);
      expect(reported).toHaveLength(2);
    });
  });

  it('gives every permit back when the consumer leaves', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 3 });
      const build =
        name === 'bulkheadMap'
          ? bulkheadMap(() => withTeardown(broken), { limiter })
          : bulkheadMap(() => withTeardown(broken), { key: (item: number) => item, perKey: 1, limiter });
      const { subscription } = watch(of(1, 2, 3, 4).pipe(build));
      expect(limiter.snapshot().executing).toBe(3);
      expect(() => {
        subscription.unsubscribe();
      }).toThrow('3 errors occurred during unsubscription');
      expect(limiter.snapshot().executing).toBe(0);
      flush();
      expect(reported).toHaveLength(0);
    });
  });
});

describe('callbacks of bulkheadMap that send into its source', () => {
  const asking = {
    key: (send: () => void) => ({
      key: () => {
        send();
      },
    }),
    perKey: (send: () => void) => ({ key: (item: string) => item, perKey: () => (send(), 1) }),
  };

  it.each(Object.entries(asking))('number the items as they came, and keep their order: %s', (_, ask) => {
    const source = new Subject<string>();
    const more = ['b', 'c'];
    const options = ask(() => {
      const next = more.shift();
      if (next !== undefined) source.next(next);
    });
    const settled: [number, string][] = [];
    source.pipe(bulkheadMap((item: string) => of(item), { ...options, order: inputOrder() })).subscribe(({ index, input }) => {
      settled.push([index, input]);
    });
    source.next('a');
    source.next('d');
    expect(settled).toEqual([
      [0, 'a'],
      [1, 'b'],
      [2, 'c'],
      [3, 'd'],
    ]);
  });

  it('lose no item when they complete the source', () => {
    const source = new Subject<string>();
    const { seen } = watch(
      source.pipe(
        bulkheadMap((item: string) => of(item), {
          key: () => {
            source.complete();
          },
        }),
      ),
    );
    source.next('a');
    expect(seen).toEqual(['a', 'complete']);
  });

  it('start nothing when they leave', () => {
    const leave = new Subject<void>();
    const called: string[] = [];
    const work = (item: string): Observable<string> => {
      called.push(item);
      return of(item);
    };
    const { seen } = watch(
      of('a', 'b').pipe(
        bulkheadMap(work, {
          key: () => {
            leave.next();
          },
        }),
        takeUntil(leave),
      ),
    );
    expect([seen, called]).toEqual([['complete'], []]);
  });

  it('keep to `perKey` when they end the last item of the key', () => {
    const source = new Subject<string>();
    const inner = new Subject<string>();
    let running = 0;
    let most = 0;
    let isAsked = false;
    const work = (item: string): Observable<string> => {
      most = Math.max(most, ++running);
      return new Observable((subscriber) => {
        if (item === 'a') inner.subscribe(subscriber);
        return () => {
          running--;
        };
      });
    };
    const key = (item: string): string => {
      if (item === 'b') inner.complete();
      return isAsked ? 'key' : ((isAsked = true), 'key');
    };
    const subscription = source.pipe(bulkheadMap(work, { key, perKey: 1 })).subscribe();
    for (const item of ['a', 'b', 'c', 'd']) source.next(item);
    expect([most, running]).toEqual([1, 1]);
    subscription.unsubscribe();
    expect(running).toBe(0);
  });
});

describe.each(names)('a listener of %s', (name) => {
  it.each(['accepted', 'attemptStarted', 'attemptEnded', 'settled'] as const)('may leave at %s', async (type) => {
    for (const work of [
      (item: string) => Promise.resolve(item),
      (item: string) => of(item),
      () => Promise.reject(new Error('no')),
      () => throwError(() => new Error('no')),
    ]) {
      const leave = new Subject<void>();
      const source = new Subject<string>();
      const events: string[] = [];
      const onEvent = (event: FlowEvent): void => {
        events.push(event.type);
        if (event.type === type) leave.next();
      };
      const { seen } = watch(source.pipe(both[name](work as Work<string, unknown>, { onEvent }), takeUntil(leave)));
      source.next('a');
      await turn();
      expect(seen).toEqual(['complete']);
      // Every item that was accepted is told of once more.
      expect(events.filter((each) => each === 'settled' || each === 'cancelled')).toHaveLength(1);
    }
  });

  it.each(['accepted', 'attemptStarted'] as const)('that leaves at %s finds the work not called', (type) => {
    const leave = new Subject<void>();
    const called: string[] = [];
    const work = (item: string): Observable<string> => {
      called.push(item);
      return of(item);
    };
    const onEvent = (event: FlowEvent): void => {
      if (event.type === type) leave.next();
    };
    const { seen } = watch(of('a', 'b').pipe(both[name](work, { onEvent }), takeUntil(leave)));
    expect([seen, called]).toEqual([['complete'], []]);
  });

  it('may send at every event, and every item settles once', () => {
    const source = new Subject<number>();
    let sent = 0;
    const onEvent = (): void => {
      if (sent < 200) source.next(++sent);
    };
    const { seen } = watch(source.pipe(both[name]((item: number) => of(item), { onEvent, concurrency: 2 })));
    source.next(0);
    expect(seen.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 201 }, (_, item) => item));
  });
});

describe('a listener of bulkheadMap', () => {
  it.each(['dropOldest', 'dropNewest', 'latest'] as const)('may send when something is dropped: %s', (overflow) => {
    const source = new Subject<number>();
    let sent = 10;
    const running: Subject<number>[] = [];
    const work = (): Observable<number> => {
      const inner = new Subject<number>();
      running.push(inner);
      return inner;
    };
    const onEvent = (event: FlowEvent): void => {
      if (event.type === 'dropped' && sent < 15) source.next(sent++);
    };
    const settled: number[] = [];
    const options = { overflow, maxQueued: 1, concurrency: 2, perKey: 1, key: (item: number) => item % 2, onEvent };
    source.pipe(bulkheadMap(work, options)).subscribe(({ input }) => settled.push(input));
    for (let item = 0; item < 10; item++) source.next(item);
    source.complete();
    for (const inner of running) inner.complete();
    expect(settled.sort((a, b) => a - b)).toEqual(Array.from({ length: sent }, (_, item) => item));
  });

  it('hears of `drained` once when it changes the concurrency there', () => {
    const concurrency = new Subject<number>();
    const told: string[] = [];
    const onEvent = ({ type }: FlowEvent): void => {
      told.push(type);
      if (type === 'drained' && told.length < 10) concurrency.next(3);
    };
    watch(of('a').pipe(bulkheadMap((item: string) => of(item), { concurrency, onEvent })));
    expect(told).toEqual(['accepted', 'attemptStarted', 'attemptEnded', 'settled', 'drained']);
  });
});

it('bulkheadMap with `timeoutMs` hears nothing of a call that answers when it is aborted', () => {
  virtualTime(({ advance }) => {
    const work = (_: string, { signal }: { signal: AbortSignal }): Observable<string> =>
      new Observable((subscriber) => {
        signal.addEventListener('abort', () => {
          subscriber.next('late');
          subscriber.complete();
        });
      });
    const { seen } = watch(of('a').pipe(bulkheadMap(work, { timeoutMs: 5 })));
    advance(5);
    expect(seen).toEqual(['a: FLOW_ATTEMPT_TIMEOUT', 'complete']);
  });
});

describe('a consumer that is told of an error', () => {
  it.each(['close', 'setLimits'] as const)('starts nothing more, and ends, when it says %s to the limiter there', async (act) => {
    const limiter = createLimiter({ concurrency: 1 });
    const called: number[] = [];
    const work = (item: number): Promise<never> => {
      called.push(item);
      return Promise.reject(new Error('bad'));
    };
    const options = { limiter, errors: 'propagate' } as const;
    for (const operator of [bulkheadMap(work, options), bulkheadMap(work, { key: (item: number) => item, perKey: 1, ...options })]) {
      const source = new Subject<number>();
      const failed = new Promise((resolve) => {
        source.pipe(operator).subscribe({
          error: (error: unknown) => {
            if (act === 'close') limiter.close();
            else limiter.setLimits({ concurrency: 5 });
            resolve(error);
          },
        });
      });
      for (const item of [0, 1, 2]) source.next(item);
      await failed;
      await turn();
    }
    // A closed limiter takes none of the second stream's.
    expect(called).toEqual(act === 'close' ? [0] : [0, 0, 1, 2]);
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });

  it('starts nothing more when it changes the concurrency there', () => {
    const concurrency = new Subject<number>();
    const called: number[] = [];
    const inner = new Subject<never>();
    const work = (item: number): Observable<never> => {
      called.push(item);
      return inner;
    };
    const errors: unknown[] = [];
    from([0, 1, 2])
      .pipe(bulkheadMap(work, { concurrency: merge(of(1), concurrency), errors: 'propagate' }))
      .subscribe({
        error: (error: unknown) => {
          errors.push(error);
          concurrency.next(3);
        },
      });
    inner.error(new Error('bad'));
    expect([called, errors]).toEqual([[0], [new Error('bad')]]);
  });

  it('starts nothing more when it is a concurrency out of range', () => {
    const concurrency = new Subject<number>();
    const called: number[] = [];
    const inner = new Subject<number>();
    const codes: string[] = [];
    from([0, 1, 2])
      .pipe(bulkheadMap((item: number) => (called.push(item), inner), { concurrency: merge(of(1), concurrency) }))
      .subscribe({
        error: (error: unknown) => {
          codes.push(codeOf(error));
          inner.complete();
        },
      });
    concurrency.next(0);
    expect([called, codes]).toEqual([[0], ['FLOW_CONFIG_INVALID']]);
  });
});

describe('a subscriber that sends in answer to a rejection, without a listener for events', () => {
  const sendAt = <T>(stream: Observable<Settled<T, unknown>>, act: (settled: Settled<T, unknown>) => void): { readonly seen: string[] } =>
    watch(
      new Observable<Settled<T, unknown>>((to) =>
        stream.subscribe({
          next: (settled) => {
            to.next(settled);
            act(settled);
          },
          error: (error: unknown) => {
            to.error(error);
          },
          complete: () => {
            to.complete();
          },
        }),
      ),
    );

  it('has a key stopped that is stopped', () => {
    const source = new Subject<string>();
    const calls: Record<string, Subject<string>> = {};
    const work = (item: string) => (calls[item] = new Subject());
    const { seen } = sendAt(source.pipe(bulkheadMap(work, { key: () => 1, perKey: 1, stopKey: true })), ({ input }) => {
      if (input === 'pay') source.next('ship');
    });
    source.next('pay');
    calls['pay']?.error(new Error('refused'));
    source.next('bill');
    expect([Object.keys(calls), seen]).toEqual([['pay'], ['pay: refused', 'ship: FLOW_CLOSED', 'bill: FLOW_CLOSED']]);
  });

  it.each(['close', 'clear'] as const)('takes no place from those that a `%s` of the limiter refuses', (how) => {
    const limiter = createLimiter({ concurrency: 1 });
    const source = new Subject<number>();
    const first = new Subject<number>();
    const { seen } = sendAt(source.pipe(bulkheadMap((item) => (item === 0 ? first : of(item)), { limiter })), ({ input }) => {
      if (input === 1) source.next(9);
    });
    for (const item of [0, 1, 2, 3]) source.next(item);
    limiter[how]();
    first.complete();
    const code = how === 'close' ? 'FLOW_CLOSED' : 'FLOW_CLEARED';
    const last = how === 'close' ? '9: FLOW_CLOSED' : '9';
    expect(seen.toSorted()).toEqual([`1: ${code}`, `2: ${code}`, `3: ${code}`, last, 'undefined'].toSorted());
  });

  it.each(['dropOldest', 'latest'] as const)(
    'finds one of a key at a time, though the call ends when it is told of one dropped by %s',
    (overflow) => {
      const source = new Subject<string>();
      const calls: Record<string, Subject<string>> = {};
      const work = (item: string) => (calls[item] = new Subject());
      const stream = source.pipe(bulkheadMap(work, { key: (item) => item.slice(0, 1), perKey: 1, concurrency: 5, maxQueued: 1, overflow }));
      const { seen } = sendAt(stream, ({ input, status }) => {
        if (input === 'a2' && status === 'rejected') calls['a1']?.complete();
      });
      for (const item of ['a1', 'a2', 'a3', 'a4']) source.next(item);
      expect(Object.keys(calls)).toEqual(['a1', 'a3']);
      calls['a3']?.complete();
      calls['a4']?.complete();
      source.complete();
      expect(seen).toEqual(['a2: FLOW_OVERFLOW', 'undefined', 'undefined', 'undefined', 'complete']);
    },
  );

  it.each(['dropOldest', 'latest'] as const)('settles the newcomer when it closes the limiter at one dropped by %s', (overflow) => {
    const limiter = createLimiter({ concurrency: 1 });
    limiter.acquire().subscribe();
    const source = new Subject<string>();
    const stream = source.pipe(
      bulkheadMap((item) => of(item), { key: (item: string) => item.slice(0, 1), perKey: 1, limiter, maxQueued: 1, overflow }),
    );
    const { seen } = sendAt(stream, ({ input }) => {
      if (input === 'a1') limiter.close();
    });
    for (const item of ['a1', 'a2']) source.next(item);
    source.complete();
    expect(seen).toEqual(['a1: FLOW_OVERFLOW', 'a2: FLOW_CLOSED', 'complete']);
  });
});
