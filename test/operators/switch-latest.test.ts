import { setTimeout as delay } from 'node:timers/promises';
import { config, EMPTY, NEVER, Observable, of, range, Subject, switchMap, take, throwError, UnsubscriptionError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, ItemContext } from '../../operators/index.js';
import * as operators from '../../operators/index.js';
import { switchLatest } from '../../operators/index.js';
import { unstamped } from '../support/events.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

/** Calls that end when the test says so, and a log of what their signals and subscriptions see. */
function callsOf<R>(log: string[]) {
  const ends = new Map<string, { readonly resolve: (value: R) => void; readonly reject: (error: unknown) => void }>();
  return {
    ends,
    promised: (item: string, { signal }: { readonly signal: AbortSignal }): Promise<R> => {
      log.push(`call ${item}`);
      signal.addEventListener('abort', () => log.push(`abort ${item}`));
      return new Promise<R>((resolve, reject) => ends.set(item, { resolve, reject }));
    },
    observed: (item: string, { signal }: { readonly signal: AbortSignal }): Observable<R> =>
      new Observable((subscriber) => {
        log.push(`call ${item}`);
        signal.addEventListener('abort', () => log.push(`abort ${item}`));
        subscriber.add(() => log.push(`leave ${item}`));
      }),
  };
}

const settle = async (): Promise<void> => {
  await new Promise((resolve) => setImmediate(resolve));
};

describe('the signal of a call', () => {
  it('aborts before the call is unsubscribed from, and before the next call is made', () => {
    const log: string[] = [];
    const source = new Subject<string>();
    source.pipe(switchLatest(callsOf<string>(log).observed)).subscribe();
    source.next('a');
    source.next('b');
    expect(log).toEqual(['call a', 'abort a', 'leave a', 'call b']);
  });

  it('aborts with a DOMException named AbortError', () => {
    const reasons: unknown[] = [];
    const source = new Subject<string>();
    const subscription = source
      .pipe(
        switchLatest((_item, { signal }) => {
          signal.addEventListener('abort', () => reasons.push(signal.reason));
          return NEVER;
        }),
      )
      .subscribe();
    source.next('superseded');
    source.next('left');
    subscription.unsubscribe();
    expect(reasons).toHaveLength(2);
    expect(reasons.every((reason) => reason instanceof DOMException && reason.name === 'AbortError')).toBe(true);
  });

  it('does not abort when the call has ended by itself, well or badly', () => {
    const signals: AbortSignal[] = [];
    const source = new Subject<Observable<string>>();
    source
      .pipe(
        switchLatest((call, { signal }) => {
          signals.push(signal);
          return call;
        }),
      )
      .subscribe({ error: () => undefined });
    source.next(of('done'));
    source.next(
      new Observable((subscriber) => {
        subscriber.error(new Error('failed'));
      }),
    );
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  });

  it('is aborted from the start when it is first looked at after the call was superseded', async () => {
    const seen: boolean[] = [];
    const source = new Subject<string>();
    source
      .pipe(
        switchLatest(async (item, context) => {
          await Promise.resolve();
          seen.push(context.signal.aborted);
          return item;
        }),
      )
      .subscribe();
    source.next('a');
    source.next('b');
    await settle();
    expect(seen).toEqual([true, false]);
  });

  // Listeners pile up on a signal that lives as long as a session.
  it('is the call’s own: 10,000 calls leave no listener on a session signal', () => {
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
    const left = new Observable<never>((subscriber) => {
      const end = (): void => {
        subscriber.complete();
      };
      session.addEventListener('abort', end);
      return () => {
        session.removeEventListener('abort', end);
      };
    });
    let aborted = 0;
    const subscription = range(0, 10_000)
      .pipe(
        switchLatest((_item, { signal }) => {
          signal.addEventListener('abort', () => (aborted += 1));
          return left;
        }),
      )
      .subscribe();
    expect(aborted).toBe(9999);
    expect(listeners).toBe(1);
    subscription.unsubscribe();
    expect(listeners).toBe(0);
  });
});

describe('promises', () => {
  // switchMap(() => promise) cannot stop what it started: it has no signal to pass on.
  it('are told to stop; under switchMap both requests run on', () => {
    const log: string[] = [];
    const calls = callsOf<string>(log);
    const source = new Subject<string>();
    source.pipe(switchLatest(calls.promised)).subscribe();
    source.next('a');
    source.next('b');
    expect(log).toEqual(['call a', 'abort a', 'call b']);

    log.length = 0;
    const stock = new Subject<string>();
    stock.pipe(switchMap((item) => calls.promised(item, new AbortController()))).subscribe();
    stock.next('a');
    stock.next('b');
    expect(log).toEqual(['call a', 'call b']);
  });

  it('that ignore their signal are not listened to any more', async () => {
    const log: string[] = [];
    const calls = callsOf<string>([]);
    const source = new Subject<string>();
    source.pipe(switchLatest(calls.promised)).subscribe((value) => log.push(value));
    source.next('a');
    source.next('b');
    calls.ends.get('b')?.resolve('of b');
    await settle();
    calls.ends.get('a')?.resolve('of a');
    await settle();
    expect(log).toEqual(['of b']);
  });

  it('that fail after they were superseded are reported, and nothing else happens', async () => {
    const events: FlowEvent[] = [];
    const errors: unknown[] = [];
    const calls = callsOf<string>([]);
    const source = new Subject<string>();
    source
      .pipe(switchLatest(calls.promised, { onEvent: unstamped((event) => events.push(event)) }))
      .subscribe({ error: (error: unknown) => errors.push(error) });
    source.next('a');
    source.next('b');
    source.next('c');
    calls.ends.get('a')?.reject(Object.assign(new Error('overloaded'), { status: 503 }));
    calls.ends.get('b')?.reject(new DOMException('stopped', 'AbortError'));
    await settle();
    expect(errors).toEqual([]);
    expect(events).toEqual([
      { type: 'cancelled', operator: 'switchLatest', lane: 'default', count: 1 },
      { type: 'cancelled', operator: 'switchLatest', lane: 'default', count: 1 },
      { type: 'swallowed', operator: 'switchLatest', lane: 'default' },
      { type: 'swallowed', operator: 'switchLatest', lane: 'default' },
    ]);
  });

  it('cause no unhandled rejection, whichever call made them and whenever they fail', async () => {
    const unhandled: unknown[] = [];
    const listen = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', listen);
    const source = new Subject<string>();
    const subscription = source
      .pipe(
        switchLatest((item) => {
          if (item === 'a') source.next('b');
          return Promise.reject(new Error(item));
        }),
      )
      .subscribe({ error: () => undefined });
    source.next('a');
    subscription.unsubscribe();
    await settle();
    process.off('unhandledRejection', listen);
    expect(unhandled).toEqual([]);
  });
});

describe('a call that is given up', () => {
  it('cannot fail the result by answering its signal with an error', () => {
    const events: string[] = [];
    const errors: unknown[] = [];
    const source = new Subject<string>();
    source
      .pipe(
        switchLatest(
          (_item, { signal }) =>
            new Observable((subscriber) => {
              signal.addEventListener('abort', () => {
                subscriber.next('too late');
                subscriber.error(new DOMException('stopped', 'AbortError'));
              });
            }),
          { onEvent: unstamped(({ type }) => events.push(type)) },
        ),
      )
      .subscribe({ next: () => errors.push('a value'), error: (error: unknown) => errors.push(error) });
    source.next('a');
    source.next('b');
    expect(errors).toEqual([]);
    expect(events).toEqual(['cancelled', 'swallowed']);
  });

  it('cannot complete the result by answering its signal with an end', () => {
    let completed = false;
    const source = new Subject<string>();
    source
      .pipe(
        switchLatest(
          (_item, { signal }) =>
            new Observable((subscriber) => {
              signal.addEventListener('abort', () => {
                subscriber.complete();
              });
            }),
        ),
      )
      .subscribe({ complete: () => (completed = true) });
    source.next('a');
    source.next('b');
    source.complete();
    expect(completed).toBe(false);
  });

  it('may make the consumer leave through its signal: no further call is made', () => {
    const made: string[] = [];
    const source = new Subject<string>();
    const subscription = source
      .pipe(
        switchLatest((item, { signal }) => {
          made.push(item);
          signal.addEventListener('abort', () => {
            subscription.unsubscribe();
          });
          return NEVER;
        }),
      )
      .subscribe();
    source.next('a');
    source.next('b');
    expect(made).toEqual(['a']);
    expect(source.observed).toBe(false);
  });
});

it('reports what a project throws after it has superseded itself, and goes on', () => {
  const source = new Subject<string>();
  const log: string[] = [];
  source
    .pipe(
      switchLatest(
        (item) => {
          if (item !== 'a') return NEVER;
          source.next('b');
          throw new Error('too late');
        },
        { onEvent: unstamped(({ type }) => log.push(type)) },
      ),
    )
    .subscribe({ error: () => log.push('error'), complete: () => log.push('complete') });
  source.next('a');
  source.complete();
  expect(log).toEqual(['cancelled', 'swallowed']);
});

describe('a source that is fed while it is being handled', () => {
  it('by the consumer: 100,000 synchronous switches do not recurse, and none is lost', () => {
    const source = new Subject<number>();
    let last = 0;
    let lost = 0;
    source.pipe(switchLatest((item) => of(item))).subscribe((value) => {
      lost += value - last - 1;
      last = value;
      if (value < 1e5) source.next(value + 1);
    });
    source.next(1);
    expect([last, lost]).toEqual([1e5, 0]);
  });

  it('by project: 100,000 of them do not recurse, and the newest wins', () => {
    const source = new Subject<number>();
    const values: number[] = [];
    let superseded = 0;
    source
      .pipe(
        switchLatest((item, context) => {
          if (item < 1e5) source.next(item + 1);
          if (item % 1000 === 0 && context.signal.aborted) superseded += 1;
          return of(item);
        }),
      )
      .subscribe((value) => values.push(value));
    source.next(1);
    expect(values).toEqual([1e5]);
    // The signals that were looked at; the last one's is the newest call's.
    expect(superseded).toBe(99);
  });

  it('by 100,000 items of a synchronous source: only the last call runs to its end', () => {
    const values: number[] = [];
    let left = 0;
    range(1, 1e5)
      .pipe(
        switchLatest((item) =>
          item === 1e5
            ? of(item)
            : new Observable<number>(() => () => {
                left += 1;
              }),
        ),
      )
      .subscribe((value) => values.push(value));
    expect(values).toEqual([1e5]);
    expect(left).toBe(1e5 - 1);
  });

  it('stops the rest of what a synchronous call would say', () => {
    const source = new Subject<string>();
    const values: string[] = [];
    source.pipe(switchLatest((item) => of(`${item}1`, `${item}2`, `${item}3`))).subscribe((value) => {
      values.push(value);
      if (value === 'a1') source.next('b');
    });
    source.next('a');
    expect(values).toEqual(['a1', 'b1', 'b2', 'b3']);
  });

  it('completes after what was sent before the end', () => {
    const source = new Subject<string>();
    const log: string[] = [];
    source.pipe(switchLatest((item) => of(item))).subscribe({
      next: (value) => {
        log.push(value);
        if (value !== 'a') return;
        source.next('b');
        source.complete();
      },
      complete: () => log.push('complete'),
    });
    source.next('a');
    expect(log).toEqual(['a', 'b', 'complete']);
  });
});

describe('keys', () => {
  it.each([false, true])('that send a newer item supersede the one they are asked about (another call under way: %s)', (isBusy) => {
    const source = new Subject<number>();
    const seen: string[] = [];
    const key = (item: number): string => {
      if (item === 1) source.next(2);
      return 'key';
    };
    const project = (item: number, { signal }: ItemContext): Observable<string> => {
      seen.push(`call ${String(item)}`);
      signal.addEventListener('abort', () => seen.push(`abort ${String(item)}`));
      return item === 0 ? NEVER : of(`${String(item)}a`, `${String(item)}b`);
    };
    source.pipe(switchLatest(project, { key })).subscribe((value) => seen.push(value));
    if (isBusy) source.next(0);
    source.next(1);
    expect(seen).toEqual([...(isBusy ? ['call 0', 'abort 0'] : []), 'call 2', '2a', '2b']);
  });

  it.each([false, true])('superseded in a listener of another supersession: the newest alone is started (with keys: %s)', (isKeyed) => {
    const source = new Subject<number>();
    const log: unknown[] = [];
    let cancelled = 0;
    source
      .pipe(
        switchLatest(
          (item) => {
            log.push(`call ${String(item)}`);
            return item === 0 ? NEVER : of(item);
          },
          {
            ...(isKeyed && { key: () => 'one' }),
            onEvent: ({ type }) => {
              if (type === 'cancelled' && ++cancelled === 1) source.next(2);
            },
          },
        ),
      )
      .subscribe((value) => log.push(value));
    source.next(0);
    source.next(1);
    expect(log).toEqual(['call 0', 'call 2', 2]);
    // The call under way, and the item that was never started.
    expect(cancelled).toBe(2);
  });

  it('are forgotten when they have nothing under way', () => {
    const values: number[] = [];
    let isComplete = false;
    range(0, 1000)
      .pipe(switchLatest((item) => of(item), { key: (item) => item }))
      .subscribe({ next: (value) => values.push(value), complete: () => (isComplete = true) });
    expect(values).toHaveLength(1000);
    expect(isComplete).toBe(true);
  });

  it('are forgotten after their call was superseded and the next one has ended', () => {
    const calls = [NEVER, EMPTY, EMPTY];
    const source = new Subject<string>();
    let isComplete = false;
    source
      .pipe(switchLatest((_item, { index }) => calls[index] ?? EMPTY, { key: (item) => item }))
      .subscribe({ complete: () => (isComplete = true) });
    ['a', 'a', 'b'].forEach((item) => {
      source.next(item);
    });
    source.complete();
    expect(isComplete).toBe(true);
  });

  it('are kept while their next item waits for the value before it to be handed on', () => {
    const source = new Subject<string>();
    const made: string[] = [];
    source
      .pipe(
        switchLatest(
          (item, { signal }) => {
            made.push(item);
            signal.addEventListener('abort', () => made.push(`abort ${item}`));
            return item === 'a1' ? of(item) : NEVER;
          },
          { key: (item) => item.charAt(0) },
        ),
      )
      .subscribe(() => {
        source.next('a2');
      });
    source.next('a1');
    source.next('a3');
    expect(made).toEqual(['a1', 'abort a1', 'a2', 'abort a2', 'a3']);
  });

  it('are handed to the call, and every call under way is aborted when the consumer leaves', () => {
    const log: string[] = [];
    const source = new Subject<string>();
    const subscription = source
      .pipe(
        switchLatest(
          (item, { key, signal }) => {
            signal.addEventListener('abort', () => log.push(`abort ${item} of ${String(key)}`));
            return NEVER;
          },
          { key: (item) => item.charAt(0) },
        ),
      )
      .subscribe();
    ['a1', 'b1', 'a2'].forEach((item) => {
      source.next(item);
    });
    expect(log).toEqual(['abort a1 of a']);
    subscription.unsubscribe();
    expect(log).toEqual(['abort a1 of a', 'abort b1 of b', 'abort a2 of a']);
  });
});

describe("with errors: 'settle'", () => {
  it('one call that fails does not end the next ones', () => {
    const source = new Subject<string>();
    const seen: unknown[] = [];
    const failure = new Error('no');
    const call = (item: string) => {
      if (item === 'thrown') throw failure;
      return item === 'failed' ? throwError(() => failure) : of(1, 2);
    };
    source
      .pipe(operators.switchLatest(call, { errors: 'settle' }))
      .subscribe({ next: (value) => seen.push(value), complete: () => seen.push('complete') });
    for (const item of ['thrown', 'failed', 'good']) source.next(item);
    source.complete();
    expect(seen).toEqual([
      { status: 'rejected', reason: failure, input: 'thrown', index: 0, id: '0', attempts: 1 },
      { status: 'rejected', reason: failure, input: 'failed', index: 1, id: '1', attempts: 1 },
      { status: 'fulfilled', value: 2, input: 'good', index: 2, id: '2', attempts: 1 },
      'complete',
    ]);
  });

  it('a superseded call has no result, and its late failure is swallowed', async () => {
    const source = new Subject<string>();
    const events: string[] = [];
    const seen: unknown[] = [];
    const { promised, ends } = callsOf<string>([]);
    source
      .pipe(operators.switchLatest(promised, { errors: 'settle', onEvent: ({ type }) => events.push(type) }))
      .subscribe(({ input, status }) => seen.push([input, status]));
    source.next('a');
    source.next('b');
    ends.get('a')!.reject(new Error('late'));
    ends.get('b')!.reject(new Error('no'));
    await settle();
    expect(seen).toEqual([['b', 'rejected']]);
    expect(events).toEqual(['cancelled', 'swallowed']);
    source.next('c');
    ends.get('c')!.resolve('found');
    await settle();
    expect(seen).toEqual([
      ['b', 'rejected'],
      ['c', 'fulfilled'],
    ]);
  });

  it('keyed: a failure of one key leaves the calls of the others, and its own next ones', async () => {
    const source = new Subject<string>();
    const seen: unknown[] = [];
    const { promised, ends } = callsOf<string>([]);
    source
      .pipe(operators.switchLatest(promised, { errors: 'settle', key: ([letter]) => letter }))
      .subscribe(({ input, status }) => seen.push([input, status]));
    source.next('a1');
    source.next('b1');
    ends.get('a1')!.reject(new Error('no'));
    await settle();
    source.next('a2');
    ends.get('b1')!.resolve('found');
    ends.get('a2')!.resolve('found');
    await settle();
    expect(seen).toEqual([
      ['a1', 'rejected'],
      ['b1', 'fulfilled'],
      ['a2', 'fulfilled'],
    ]);
  });

  it('takes an answer that is no stream as the value', () => {
    const seen: unknown[] = [];
    of('text')
      .pipe(operators.switchLatest((item) => [item], { errors: 'settle' }))
      .subscribe((settled) => seen.push(settled.status === 'fulfilled' && settled.value));
    expect(seen).toEqual([['text']]);
  });

  it('tells nothing more to a consumer that leaves with a result', () => {
    const seen: unknown[] = [];
    of(1, 2, 3)
      .pipe(
        operators.switchLatest((item) => of(item), { errors: 'settle' }),
        take(1),
      )
      .subscribe(({ input }) => seen.push(input));
    expect(seen).toEqual([1]);
  });
});

describe('onSuperseded', () => {
  it('is called with an item whose call was aborted, before the newer call starts, and for no other end', () => {
    const log: string[] = [];
    const source = new Subject<string>();
    const calls = callsOf<string>(log);
    const project = (item: string, context: ItemContext): Observable<string> =>
      item === 'done' ? of(item) : calls.observed(item, context);
    const onSuperseded = (item: string): void => void log.push(`superseded ${item}`);
    const subscription = source.pipe(switchLatest(project, { onSuperseded })).subscribe();
    for (const item of ['done', 'a', 'b']) source.next(item);
    subscription.unsubscribe();
    expect(log).toEqual(['call a', 'abort a', 'leave a', 'superseded a', 'call b', 'abort b', 'leave b']);
  });

  it('is called with an item whose call never started, because a newer one came while the old call was being ended', () => {
    for (const key of [undefined, () => 'one key']) {
      const source = new Subject<string>();
      const started: string[] = [];
      const superseded: string[] = [];
      const events: FlowEvent[] = [];
      const project = (item: string, { signal }: ItemContext): Observable<never> => {
        started.push(item);
        if (item === 'a')
          signal.addEventListener('abort', () => {
            source.next('c');
          });
        return NEVER;
      };
      const onSuperseded = (item: string): void => void superseded.push(item);
      source.pipe(switchLatest(project, { onSuperseded, onEvent: (event) => events.push(event), ...(key && { key }) })).subscribe();
      source.next('a');
      source.next('b');
      expect(started).toEqual(['a', 'c']);
      expect(superseded).toEqual(['a', 'b']);
      expect(events.filter(({ type }) => type === 'cancelled')).toHaveLength(2);
    }
  });

  it('may send a newer item, and errors the result when it throws', () => {
    const source = new Subject<string>();
    const started: string[] = [];
    const ends: unknown[] = [];
    const onSuperseded = (item: string): void => {
      if (item === 'a') source.next('c');
      if (item === 'c') throw new Error('broken');
    };
    const project = (item: string): Observable<never> => {
      started.push(item);
      return NEVER;
    };
    source.pipe(switchLatest(project, { onSuperseded })).subscribe({ error: (error) => ends.push(error) });
    for (const item of ['a', 'b', 'd']) source.next(item);
    expect(started).toEqual(['a', 'c']);
    expect(ends).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'onSuperseded' }]);
  });
});

describe('switchLatest', () => {
  expectNoUnhandledRejections();

  it('says nothing of a call that speaks while it is told of as given up', () => {
    const items = new Subject<number>();
    const calls = [new Subject<string>(), new Subject<string>()];
    const seen: string[] = [];
    const onEvent = (): void => {
      calls[0]?.next('old');
      calls[0]?.complete();
    };
    items.pipe(switchLatest((item) => calls[item] as Subject<string>, { onEvent })).subscribe({
      next: (value) => seen.push(value),
      complete: () => seen.push('complete'),
    });
    items.next(0);
    items.next(1);
    items.complete();
    calls[1]?.next('new');
    calls[1]?.complete();
    expect(seen).toEqual(['new', 'complete']);
  });

  it('takes what `key` sends as newer than the item it was asked about', async () => {
    const items = new Subject<number>();
    const seen: number[] = [];
    const key = (item: number): number => {
      if (item === 1) items.next(2);
      return 0;
    };
    items.pipe(switchLatest((item) => Promise.resolve(item), { key })).subscribe((value) => seen.push(value));
    items.next(1);
    await delay(0);
    expect(seen).toEqual([2]);
  });
});

describe('switchLatest, at its ends', () => {
  expectNoUnhandledRejections();

  it('calls the item whose key is being asked for when the source completes', () => {
    const items = new Subject<number>();
    const seen: unknown[] = [];
    const key = (item: number): number => {
      items.complete();
      return item;
    };
    items.pipe(switchLatest((item) => of(item), { key })).subscribe({
      next: (value) => seen.push(value),
      complete: () => seen.push('complete'),
    });
    items.next(1);
    expect(seen).toEqual([1, 'complete']);
  });

  it('makes the next call when the teardown of the old one throws, and reports that', () => {
    virtualTime(({ flush }) => {
      const reported: unknown[] = [];
      const seen: number[] = [];
      config.onUnhandledError = (error) => reported.push(error);
      const items = new Subject<number>();
      const work = (item: number) =>
        new Observable<number>((subscriber) => {
          subscriber.next(item);
          return () => {
            throw new Error('teardown');
          };
        });
      const result = items.pipe(switchLatest(work)).subscribe((value) => seen.push(value));
      items.next(1);
      items.next(2);
      // What is torn down because the consumer leaves is thrown to the consumer.
      expect(() => {
        result.unsubscribe();
      }).toThrow(UnsubscriptionError);
      flush();
      config.onUnhandledError = null;
      expect([seen, reported.length]).toEqual([[1, 2], 1]);
    });
  });
});
