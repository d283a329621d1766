import fc from 'fast-check';
import { asapScheduler, Observable, of, range, Subject, take } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { BatchOptions, FlowEvent } from '../../operators/index.js';
import { batch, CallbackError, isFlowError } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';

function collect<T>(items: readonly T[], options: BatchOptions<T>) {
  const batches: T[][] = [];
  const errors: unknown[] = [];
  const events: FlowEvent[] = [];
  of(...items)
    .pipe(batch({ ...options, onEvent: unstamped((event) => events.push(event)) }))
    .subscribe({ next: (made) => batches.push(made), error: (error: unknown) => errors.push(error) });
  return { batches, errors, events };
}

describe('a long synchronous source', () => {
  it('passes 100,000 items in order, with one timer', () => {
    const scheduler = new CountingScheduler();
    const seen: number[] = [];
    let largest = 0;
    range(0, 1e5)
      .pipe(batch({ scheduler }))
      .subscribe((items) => {
        seen.push(...items);
        largest = Math.max(largest, items.length);
      });
    expect(seen).toEqual(Array.from({ length: 1e5 }, (_, index) => index));
    expect(largest).toBe(16);
    expect(scheduler.delays).toEqual([20]);
    expect(scheduler.actions).toHaveLength(0);
  });

  it('does not recurse when the consumer answers every batch with the next item', () => {
    const source = new Subject<number>();
    let count = 0;
    source.pipe(batch({ maxSize: 1 })).subscribe(([item = 0]) => {
      count += 1;
      if (item < 1e5) source.next(item + 1);
    });
    source.next(1);
    expect(count).toBe(1e5);
  });
});

describe('its timer', () => {
  it('is one for many batches, re-armed only when it fires early', () => {
    const scheduler = new CountingScheduler();
    const source = new Subject<number>();
    const waits: number[] = [];
    source.pipe(batch({ maxSize: 2, maxWaitMs: 20, scheduler })).subscribe((items) => waits.push(scheduler.frame - (items[0] ?? 0)));
    // Two items a millisecond for a second, then one alone.
    for (let ms = 0; ms < 1000; ms++) {
      scheduler.schedule(() => {
        source.next(ms);
        source.next(ms);
      }, ms);
    }
    scheduler.schedule(() => {
      source.next(1000);
    }, 1000);
    scheduler.delays.length = 0;
    scheduler.flush();
    expect(waits).toHaveLength(1001);
    expect(waits.slice(0, 1000).every((wait) => wait === 0)).toBe(true);
    expect(waits.at(-1)).toBe(20);
    expect(scheduler.delays.length).toBeLessThanOrEqual(1 + 1000 / 19);
  });

  it('is never started for an infinite wait, a full batch or a consumer who has left', () => {
    const scheduler = new CountingScheduler();
    const source = new Subject<number>();
    source.pipe(batch({ maxWaitMs: Infinity, scheduler })).subscribe();
    source.pipe(batch({ maxSize: 1, scheduler })).subscribe();
    source.pipe(batch({ maxWeight: 1, closeWhen: () => 'before', scheduler }), take(1)).subscribe();
    source.next(1);
    source.next(2);
    expect(scheduler.delays).toEqual([]);
  });

  it('is not started by the item that made the consumer leave', () => {
    const scheduler = new CountingScheduler();
    const source = new Subject<number>();
    source.pipe(batch({ maxWeight: 3, weigh: () => 2, scheduler }), take(1)).subscribe();
    source.next(1);
    source.next(2);
    expect(source.observed).toBe(false);
    expect(scheduler.actions).toHaveLength(0);
  });

  it('waits longer than a host timer can', () => {
    const scheduler = new CountingScheduler();
    const source = new Subject<string>();
    const seen: [string[], number][] = [];
    const maxWaitMs = 40 * 24 * 3_600_000;
    source.pipe(batch({ maxWaitMs, scheduler })).subscribe((items) => seen.push([items, scheduler.frame]));
    source.next('a');
    scheduler.flush();
    expect(seen).toEqual([[['a'], maxWaitMs]]);
    expect(scheduler.delays).toEqual([2 ** 31 - 1, maxWaitMs - (2 ** 31 - 1)]);
  });

  it('fires in time although the clock is set back, before and while it runs', () => {
    const scheduler = new CountingScheduler();
    const source = new Subject<string>();
    const seen: [string[], number][] = [];
    source.pipe(batch({ maxWaitMs: 20, scheduler })).subscribe((items) => seen.push([items, scheduler.frame]));
    scheduler.frame = 5000;
    source.next('a');
    scheduler.offset = -3000;
    scheduler.flush();
    source.next('b');
    scheduler.flush();
    expect(seen).toEqual([
      [['a'], 5020],
      [['b'], 5040],
    ]);
  });

  it('leaves nothing on the real scheduler after the consumer has left', () => {
    const timersBefore = activeTimers();
    for (let i = 0; i < 1000; i++) {
      const source = new Subject<number>();
      const subscription = source.pipe(batch({ maxWaitMs: 60_000 })).subscribe();
      source.next(1);
      if (i === 0) expect(activeTimers()).toBe(timersBefore + 1);
      subscription.unsubscribe();
      expect(source.observed).toBe(false);
    }
    expect(activeTimers()).toBe(timersBefore);
  });

  it('runs on any scheduler: the end of the current turn is a batch with asapScheduler', () => {
    const seen = virtualTime(({ flush }) => {
      const batches: number[][] = [];
      const source = new Subject<number>();
      source.pipe(batch({ maxWaitMs: 0, scheduler: asapScheduler })).subscribe((items) => batches.push(items));
      source.next(1);
      source.next(2);
      expect(batches).toEqual([]);
      flush();
      source.next(3);
      flush();
      source.complete();
      return batches;
    });
    expect(seen).toEqual([[1, 2], [3]]);
  });
});

describe('what the consumer does while it is handed a batch', () => {
  it('completing, flushing and erroring wait their turn', () => {
    const answers: Record<string, (source: Subject<string>, flush: Subject<void>) => void> = {
      completing: (source) => {
        source.complete();
      },
      flushing: (_source, flush) => {
        flush.next();
      },
      erroring: (source) => {
        source.error(new Error('enough'));
      },
    };
    for (const [name, answer] of Object.entries(answers)) {
      const source = new Subject<string>();
      const flush = new Subject<void>();
      const heard: string[] = [];
      let answered = false;
      source.pipe(batch({ maxSize: 2, maxWaitMs: Infinity, flush })).subscribe({
        next: (items) => {
          heard.push(items.join(''));
          if (answered) return;
          answered = true;
          source.next('c');
          answer(source, flush);
          heard.push('handed');
        },
        error: () => heard.push('error'),
        complete: () => heard.push('complete'),
      });
      source.next('a');
      source.next('b');
      const end = { completing: ['complete'], flushing: [], erroring: ['error'] }[name];
      expect(heard, name).toEqual(['ab', 'handed', 'c', ...(end ?? [])]);
    }
  });

  it('leaving stops what waits its turn, also the callbacks', () => {
    const source = new Subject<number>();
    const seen: number[][] = [];
    const weighed: number[] = [];
    const weigh = (item: number): number => weighed.push(item);
    const subscription = source.pipe(batch({ maxSize: 1, weigh })).subscribe((items) => {
      seen.push(items);
      source.next(2);
      source.next(3);
      if (seen.length === 2) subscription.unsubscribe();
    });
    source.next(1);
    expect(seen).toEqual([[1], [2]]);
    expect(weighed).toEqual([1, 2]);
  });
});

describe('callbacks', () => {
  it.each([NaN, -1, Infinity, -Infinity, '5', undefined, null])('a weight of %o errors the stream, after the open batch', (weight) => {
    const { batches, errors } = collect(['a', 'b'], { weigh: (item) => (item === 'b' ? (weight as number) : 1) });
    expect(batches).toEqual([['a']]);
    expect(errors).toHaveLength(1);
    expect(isFlowError(errors[0], 'FLOW_CALLBACK')).toBe(true);
    expect(errors[0]).toMatchObject({ operator: 'batch', callback: 'weigh' });
  });

  it('what they throw is the cause', () => {
    const cause = new Error('mine');
    const fault = (): never => {
      throw cause;
    };
    const cases: [string, BatchOptions<string>][] = [
      ['weigh', { weigh: fault }],
      ['closeWhen', { closeWhen: fault }],
    ];
    for (const [name, options] of cases) {
      const { errors } = collect(['a'], options);
      expect(errors[0]).toBeInstanceOf(CallbackError);
      expect(errors[0]).toMatchObject({ callback: name, cause, message: `batch: \`${name}\` threw` });
    }
  });

  it('unusable answers are refused, without showing them', () => {
    const secret = 'a prompt' as never;
    expect(collect(['a'], { closeWhen: () => secret }).errors[0]).toMatchObject({
      message: "batch: `closeWhen` must return 'before', 'after' or false, returned a string",
    });
    expect(collect(['a'], { weigh: () => secret }).errors[0]).toMatchObject({
      message: 'batch: `weigh` must return a finite number >= 0, returned a string',
    });
  });

  it('closeWhen sees the open batch before the item joins it', () => {
    const states: string[] = [];
    collect(['a', 'bb', 'c'], {
      maxSize: 2,
      weigh: (text) => text.length,
      closeWhen: (item, { items, weight, itemWeight }) => {
        states.push(`${item}: [${items.join()}] ${String(weight)} + ${String(itemWeight)}`);
        return false;
      },
    });
    expect(states).toEqual(['a: [] 0 + 1', 'bb: [a] 1 + 2', 'c: [] 0 + 1']);
  });

  it('a listener that throws is ignored', () => {
    const batches: number[][] = [];
    of(1, 2)
      .pipe(
        batch({
          onEvent: unstamped(() => {
            throw new Error('listener');
          }),
        }),
      )
      .subscribe((items) => batches.push(items));
    expect(batches).toEqual([[1, 2]]);
  });
});

describe('events', () => {
  const reasons = (events: readonly FlowEvent[]) =>
    events.map((event) => (event.type === 'batchFormed' ? `${event.reason} ${String(event.size)} ${String(event.weight)}` : event.type));

  it('tell why a batch was closed, its size and its weight', () => {
    const weigh = Number;
    const refusing = (item: string): number => {
      if (Number(item) > 5) throw new Error('too heavy');
      return Number(item);
    };
    expect(reasons(collect(['1', '1', '1'], { maxSize: 2 }).events)).toEqual(['size 2 2', 'complete 1 1']);
    expect(reasons(collect(['2', '3', '4', '9', '1'], { maxWeight: 5, weigh }).events)).toEqual([
      'weight 2 5',
      'weight 1 4',
      'oversize 1 9',
      'complete 1 1',
    ]);
    expect(reasons(collect(['1', '9'], { maxWeight: 5, weigh: refusing }).events)).toEqual(['error 1 1']);
    expect(reasons(collect(['1', '9'], { maxWeight: 5, weigh: refusing, onSourceError: 'abort' }).events)).toEqual(['cancelled']);
    expect(reasons(collect(['1', '2'], { closeWhen: (item) => item === '1' && 'after' }).events)).toEqual([
      'closeWhen 1 1',
      'complete 1 1',
    ]);
  });

  it('tell that an item which went alone did not wait', () => {
    const waits = virtualTime(({ advance }) => {
      const seen: number[] = [];
      const source = new Subject<number>();
      const onEvent = (event: FlowEvent): void => {
        if (event.type === 'batchFormed') seen.push(event.waitMs);
      };
      source.pipe(batch({ maxWeight: 5, weigh: (item) => item, onEvent: unstamped(onEvent) })).subscribe();
      source.next(1);
      advance(15);
      source.next(9);
      source.complete();
      return seen;
    });
    expect(waits).toEqual([15, 0]);
  });

  it('tell how long the first item waited, also without a limit on it', () => {
    virtualTime(({ advance }) => {
      for (const maxWaitMs of [20, Infinity]) {
        const events: FlowEvent[] = [];
        const source = new Subject<number>();
        const flush = new Subject<void>();
        const subscription = source
          .pipe(batch({ maxWaitMs, maxSize: 2, flush, onEvent: unstamped((event) => events.push(event)) }))
          .subscribe();
        source.next(1);
        advance(15);
        flush.next();
        source.next(2);
        advance(4);
        source.next(3);
        source.next(4);
        subscription.unsubscribe();
        expect(events).toEqual([
          { type: 'batchFormed', operator: 'batch', lane: 'default', reason: 'flush', size: 1, weight: 1, waitMs: 15 },
          { type: 'batchFormed', operator: 'batch', lane: 'default', reason: 'size', size: 2, weight: 2, waitMs: 4 },
          { type: 'cancelled', operator: 'batch', lane: 'default', count: 1 },
        ]);
      }
    });
  });
});

describe('oversize items', () => {
  it('keep the order of everything around them', () => {
    const item = fc.integer({ min: 0, max: 20 });
    fc.assert(
      fc.property(fc.array(item), fc.integer({ min: 1, max: 12 }), (weights, maxWeight) => {
        const { batches, errors } = collect(weights, { maxWeight, maxSize: 4, weigh: (weight) => weight });
        expect(errors).toEqual([]);
        expect(batches.flat()).toEqual(weights);
        expect(batches.every((items) => items.length === 1 || items.reduce((sum, weight) => sum + weight, 0) <= maxWeight)).toBe(true);
      }),
    );
  });
});

describe('flush', () => {
  it('is subscribed to before the source and left with it', () => {
    const log: string[] = [];
    const logged = (name: string) =>
      new Observable<never>(() => {
        log.push(`${name} on`);
        return () => log.push(`${name} off`);
      });
    const subscription = logged('source')
      .pipe(batch({ flush: logged('flush') }))
      .subscribe();
    expect(log).toEqual(['flush on', 'source on']);
    subscription.unsubscribe();
    expect(log.slice(2).sort()).toEqual(['flush off', 'source off']);
  });
});

/** Timers of this process that have not fired. */
function activeTimers(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
}
