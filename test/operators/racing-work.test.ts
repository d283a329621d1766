// The work of one call in switchLatest, hedge, speculate, policy and createBreaker: plain values, promises, thenables and the async context.
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { EMPTY, firstValueFrom, from, lastValueFrom, Observable, of, Subject, takeUntil, throwError, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { bulkheadMap, createBreaker, createLimiter, hedge, policy, retryFailed, speculate, switchLatest } from '../../operators/index.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

expectNoUnhandledRejections();

type Work<R> = (context: { readonly signal: AbortSignal }) => R;

/** A query builder: its `then` sends the request, which is never answered. */
const lazy = (send: () => unknown) =>
  ({
    then: () => {
      send();
    },
  }) as unknown as PromiseLike<string>;

/** Every way to make one call. */
const WAYS: readonly [name: string, run: <R>(work: Work<Promise<R> | PromiseLike<R>>) => Observable<R>][] = [
  ['switchLatest', (work) => of(0).pipe(switchLatest((_item, context) => work(context)))],
  ['hedge', (work) => hedge((_index, context) => work(context))],
  ['hedge with a limiter', (work) => hedge((_index, context) => work(context), { limiter: createLimiter() })],
  ['speculate', (work) => speculate((_call, context) => work(context), { predict: EMPTY, confirm: of(0), match: () => true })],
  ['speculate, predicted', (work) => speculate((_call, context) => work(context), { predict: of(0), confirm: of(0), match: () => true })],
  ['policy', (work) => policy()(work)],
  ['policy with a limiter', (work) => policy({ limiter: createLimiter() })(work)],
  [
    'a fallback',
    <R>(work: Work<PromiseLike<R>>) => policy({ fallback: (_error, context) => work(context) })(() => throwError(() => new Error('no'))),
  ],
  ['a breaker', (work) => createBreaker().run(work)],
];

describe('a subscriber that takes the answer of a promise and leaves', () => {
  it.each(WAYS)('leaves its signal alone, because the answer may be a body that is still read: %s', async (_name, run) => {
    let signal: AbortSignal | undefined;
    await firstValueFrom(
      run((context) => {
        ({ signal } = context);
        return Promise.resolve('headers first');
      }),
    );
    expect(signal?.aborted).toBe(false);
  });

  it('is not reported as a cancellation by switchLatest, hedge and speculate', async () => {
    const events: FlowEvent[] = [];
    const onEvent = (event: FlowEvent): number => events.push(event);
    const work = (): Promise<string> => Promise.resolve('answer');
    await firstValueFrom(of(0).pipe(switchLatest(work, { onEvent })));
    await firstValueFrom(hedge(work, { onEvent }));
    await firstValueFrom(speculate(work, { predict: EMPTY, confirm: of(0), match: () => true, onEvent }));
    expect(events).toEqual([]);
  });

  it('nor does a newer item abort a call that has ended', async () => {
    const items = new Subject<number>();
    const signals: AbortSignal[] = [];
    const seen: number[] = [];
    const work = (item: number, { signal }: { readonly signal: AbortSignal }): Promise<number> => {
      signals.push(signal);
      return Promise.resolve(item);
    };
    items.pipe(switchLatest(work)).subscribe((value) => {
      seen.push(value);
      // While the answer is handed on, and once more later.
      if (value === 1) items.next(2);
    });
    items.next(1);
    await delay(0);
    items.next(3);
    await delay(0);
    expect([seen, signals.map(({ aborted }) => aborted)]).toEqual([
      [1, 2, 3],
      [false, false, false],
    ]);
  });
});

describe('what work returns', () => {
  const values = [
    ['a text', 'answer'],
    ['a list', ['a', 'b']],
    ['a number', 5],
    ['nothing', undefined],
    ['null', null],
    ['a set', new Set([1])],
  ] as const;

  it.each(values)('is the value itself in hedge, speculate, policy and a breaker: %s', async (_name, value) => {
    expect(await lastValueFrom(hedge(() => value).pipe(toArray()))).toEqual([value]);
    expect(await lastValueFrom(speculate(() => value, { predict: EMPTY, confirm: of(0), match: () => true }).pipe(toArray()))).toEqual([
      value,
    ]);
    expect(await lastValueFrom(policy({ limiter: createLimiter() })(() => value).pipe(toArray()))).toEqual([value]);
    expect(await lastValueFrom(policy({ fallback: () => value })(() => throwError(() => new Error('no'))).pipe(toArray()))).toEqual([
      value,
    ]);
    expect(
      await lastValueFrom(
        createBreaker()
          .run(() => value)
          .pipe(toArray()),
      ),
    ).toEqual([value]);
    expect(await createBreaker().runAsync(() => value)).toEqual(value);
  });

  it('is read as RxJS does by switchLatest', async () => {
    expect(
      await lastValueFrom(
        of('ab').pipe(
          switchLatest((text) => Array.from(text)),
          toArray(),
        ),
      ),
    ).toEqual(['a', 'b']);
  });

  it('ends the call as a success, also when the subscriber takes it and leaves at once', async () => {
    const events: string[] = [];
    const signals: AbortSignal[] = [];
    const limiter = createLimiter({ concurrency: 1 });
    limiter.onRelease(({ outcome }) => events.push(`permit ${outcome}`));
    const careful = policy({
      limiter,
      onEvent: (event) => events.push('outcome' in event ? `${event.type} ${event.outcome}` : event.type),
    });
    await firstValueFrom(careful(({ signal }) => signals.push(signal)));
    await firstValueFrom(hedge((_index, { signal }) => signals.push(signal), { onEvent: (event) => events.push(event.type) }));
    await firstValueFrom(createBreaker().run(({ signal }) => signals.push(signal)));
    expect(events).toEqual(['accepted', 'attemptStarted', 'permit ok', 'attemptEnded ok', 'settled fulfilled']);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false, false]);
  });
});

describe('a thenable that sends its request in `then`', () => {
  it.each(WAYS)('sends it once, also when it is given up: %s', async (_name, run) => {
    let sent = 0;
    const leave = new Subject<void>();
    const query = lazy(() => sent++);
    run(() => query)
      .pipe(takeUntil(leave))
      .subscribe();
    await delay(0);
    leave.next();
    await delay(0);
    expect(sent).toBe(1);
  });

  it('sends it once when its attempt has timed out', async () => {
    let sent = 0;
    const query = lazy(() => sent++);
    const careful = policy({ limiter: createLimiter(), timeoutMs: 1 });
    await expect(lastValueFrom(careful(() => query))).rejects.toMatchObject({ code: 'FLOW_ATTEMPT_TIMEOUT' });
    expect(sent).toBe(1);
  });

  it.each(WAYS)('has failed when that throws: %s', async (_name, run) => {
    const broken = {
      then(): never {
        throw new Error('then');
      },
    };
    await expect(lastValueFrom(run(() => broken as unknown as PromiseLike<string>))).rejects.toThrow('then');
  });
});

describe('a promise with a `then` of its own', () => {
  const many: typeof WAYS = [
    ...WAYS,
    ['a limiter', (work) => createLimiter({ concurrency: 1 }).run(work)],
    ...([undefined, createLimiter({ concurrency: 1 })] as const).map((limiter): (typeof WAYS)[number] => [
      `bulkheadMap${limiter ? ' with a limiter' : ''}`,
      (work) =>
        of(0).pipe(
          bulkheadMap((_item, context) => work(context), { errors: 'propagate', ...(limiter ? { limiter } : { concurrency: 1 }) }),
        ),
    ]),
  ];

  it.each(many)('is awaited, whatever that does, also when it is given up: %s', async (_name, run) => {
    const thens = [
      () => {
        throw new Error('then');
      },
      (answer: (value: string) => void) => {
        answer('once');
        answer('twice');
      },
      () => undefined,
    ];
    for (const then of thens) {
      const odd = Object.assign(Promise.resolve('awaited'), { then });
      expect(await lastValueFrom(run(() => odd))).toBe('awaited');
      run(() => odd)
        .subscribe()
        .unsubscribe();
    }
  });

  it('answers for its own item alone', async () => {
    const seen: string[] = [];
    const twice = Object.assign(Promise.resolve('first'), {
      then: (answer: (value: string) => void) => {
        answer('first');
        setImmediate(answer, 'again');
      },
    });
    const work = (item: number): Promise<string> => (item === 0 ? twice : delay(5, `item ${item}`));
    await from([0, 1, 2])
      .pipe(bulkheadMap(work, { concurrency: 1, errors: 'propagate' }))
      .forEach((answer) => seen.push(answer));
    expect(seen).toEqual(['first', 'item 1', 'item 2']);
  });
});

describe('the asynchronous context of a call', () => {
  const users = new AsyncLocalStorage<string>();
  const ask = async (): Promise<string | undefined> => {
    await delay(1);
    return users.getStore();
  };
  const names = ['ann', 'bob', 'cleo'];
  const forAll = (call: () => Promise<unknown>): Promise<unknown[]> => Promise.all(names.map((name) => users.run(name, call)));

  it('is that of the caller, in a policy whose calls wait for their limiter', async () => {
    const careful = policy({ limiter: createLimiter({ concurrency: 1 }) });
    expect(await forAll(() => lastValueFrom(careful(ask)))).toEqual(names);
  });

  it('is that of the caller, in attempts after a pause and in the fallback', async () => {
    const careful = policy({
      limiter: createLimiter({ concurrency: 1 }),
      retry: retryFailed({ delayMs: 1, jitter: 'none', maxShare: Infinity }),
      fallback: () => from(ask()),
    });
    const attempts: unknown[] = [];
    const fails = (): Promise<never> => {
      attempts.push(users.getStore());
      return Promise.reject(Object.assign(new Error('down'), { status: 503 }));
    };
    expect(await forAll(() => lastValueFrom(careful(fails)))).toEqual(names);
    expect(attempts.sort()).toEqual(names.flatMap((name) => [name, name, name]));
  });

  it('is that of the caller, in the second attempts of hedge', async () => {
    const slowFirst = (index: number): Promise<unknown> => (index === 0 ? new Promise(() => undefined) : ask());
    expect(await forAll(() => lastValueFrom(hedge(slowFirst, { delayMs: 1 })))).toEqual(names);
    const limiter = createLimiter({ concurrency: 1 });
    expect(await forAll(() => lastValueFrom(hedge(ask, { limiter })))).toEqual(names);
  });

  it('is that of the sender of the item, in switchLatest, also for items sent while a value is emitted', () => {
    const items = new Subject<string>();
    const seen: unknown[] = [];
    items.pipe(switchLatest(() => of(users.getStore()), { key: (item) => item })).subscribe((user) => {
      seen.push(user);
      const next = names[seen.length];
      if (next === undefined) return;
      users.run(next, () => {
        items.next(next);
      });
    });
    users.run(names[0]!, () => {
      items.next(names[0]!);
    });
    expect(seen).toEqual(names);
  });

  it('is that of the confirmation, in speculate', () => {
    const confirm = new Subject<string>();
    const seen: unknown[] = [];
    speculate(() => of(users.getStore()), { predict: EMPTY, confirm, match: () => true }).subscribe((user) => {
      seen.push(user);
      if (seen.length === 1)
        users.run('bob', () => {
          confirm.next('b');
        });
    });
    users.run('ann', () => {
      confirm.next('a');
    });
    expect(seen).toEqual(['ann', 'bob']);
  });
});
