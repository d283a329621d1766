import fc from 'fast-check';
import type { Observer } from 'rxjs';
import {
  BehaviorSubject,
  buffer,
  concatMap,
  EMPTY,
  exhaustMap,
  filter,
  finalize,
  NEVER,
  Observable,
  of,
  range,
  retry,
  Subject,
  sample,
  take,
  tap,
} from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { BackpressureOptions, FlowEvent } from '../../operators/index.js';
import { backpressure, CallbackError, isFlowError, OverflowError } from '../../operators/index.js';
import { sized } from '../support/deep.js';
import { unstamped } from '../support/events.js';

type Pressure = Pick<Observer<boolean>, 'next'>;
type Options<T> = Omit<BackpressureOptions<T>, 'ready'> & { readonly pressure?: Pressure };

/** A listener that tells an observer whether the pressure is high. */
const pressing =
  (to: Pressure | undefined) =>
  (event: FlowEvent): void => {
    if (event.type === 'pressure') to?.next(event.high);
  };

/** A gate that starts busy, and all that is seen of it. */
function gate<T = number>({ pressure, ...options }: Options<T> = {}, level = false) {
  const source = new Subject<T>();
  const ready = new BehaviorSubject(level);
  const seen: T[] = [];
  const ends: unknown[] = [];
  const events: FlowEvent[] = [];
  const onEvent = unstamped((event) => {
    events.push(event);
    pressing(pressure)(event);
  });
  const subscription = source.pipe(backpressure({ ready, onEvent, ...options })).subscribe({
    next: (item) => seen.push(item),
    error: (error: unknown) => ends.push(error),
    complete: () => ends.push('complete'),
  });
  const send = (...items: readonly T[]): void => {
    for (const item of items) source.next(item);
  };
  return { source, ready, seen, ends, events, subscription, send };
}

/** `true 8` for high pressure with eight items waiting. */
const pressures = (events: readonly FlowEvent[]): string[] =>
  events.flatMap((event) => (event.type === 'pressure' ? [`${String(event.high)} ${String(event.queued)}`] : []));

describe('the level', () => {
  it('is busy before the first value, and forgets nothing that comes then', () => {
    const source = new Subject<number>();
    const ready = new Subject<boolean>();
    const seen: number[] = [];
    source.pipe(backpressure({ ready })).subscribe((item) => seen.push(item));
    source.next(1);
    source.next(2);
    expect(seen).toEqual([]);
    ready.next(true);
    expect(seen).toEqual([1, 2]);
  });

  it('may be a promise or a list', async () => {
    const seen: number[] = [];
    await new Promise<void>((resolve) => {
      of(1, 2)
        .pipe(backpressure({ ready: Promise.resolve(true) }))
        .subscribe({ next: (item) => seen.push(item), complete: resolve });
      expect(seen).toEqual([]);
    });
    of(3)
      .pipe(backpressure({ ready: [false, true] }))
      .subscribe((item) => seen.push(item));
    expect(seen).toEqual([1, 2, 3]);
  });

  it('is looked at after every item that is handed on', () => {
    const steps: string[] = [];
    const levels = new Subject<boolean>();
    of('a', 'b', 'c')
      .pipe(
        backpressure({ ready: levels }),
        tap(() => {
          levels.next(false);
        }),
      )
      .subscribe({ next: (item) => steps.push(item), complete: () => steps.push('complete') });
    for (let turn = 0; turn < 4; turn++) {
      levels.next(true);
      steps.push('|');
    }
    expect(steps).toEqual(['a', '|', 'b', '|', 'c', 'complete', '|', '|']);
  });

  it('leaves the result open when ready has completed busy while something waits', () => {
    const { source, ready, seen, send, ends, subscription, events } = gate();
    send(1);
    ready.complete();
    source.complete();
    expect([seen, ends]).toEqual([[], []]);
    subscription.unsubscribe();
    expect(events).toEqual([{ type: 'cancelled', operator: 'backpressure', lane: 'default', count: 1 }]);
  });

  it('errors the stream with its own error before the source is subscribed to', () => {
    const fault = new Error('no level');
    let subscribed = false;
    let heard: unknown;
    new Observable<number>(() => {
      subscribed = true;
    })
      .pipe(
        backpressure({
          ready: new Observable<boolean>((to) => {
            to.error(fault);
          }),
        }),
      )
      .subscribe({ error: (error: unknown) => (heard = error) });
    expect(heard).toBe(fault);
    expect(subscribed).toBe(false);
  });
});

describe('a long queue', () => {
  it('of 100,000 items is handed on in order, without recursion', () => {
    const ready = new Subject<boolean>();
    const seen: number[] = [];
    range(0, 1e5)
      .pipe(backpressure({ ready, maxQueued: Infinity }))
      .subscribe((item) => seen.push(item));
    ready.next(true);
    expect(seen).toEqual(Array.from({ length: 1e5 }, (_, index) => index));
  });

  it('does not recurse when the consumer answers every item with the next one', () => {
    const answered = new Subject<number>();
    let count = 0;
    answered.pipe(backpressure({ ready: of(true), maxQueued: 1 })).subscribe((item) => {
      count++;
      if (item < 1e5) answered.next(item + 1);
    });
    answered.next(1);
    expect(count).toBe(1e5);
  });

  it('does not recurse when the consumer takes one at a time and is done at once', () => {
    const ready = new BehaviorSubject(true);
    let count = 0;
    range(0, 1e5)
      .pipe(backpressure({ ready, maxQueued: 1 }))
      .subscribe(() => {
        ready.next(false);
        count++;
        ready.next(true);
      });
    expect(count).toBe(1e5);
  });

  it('counts what the consumer sends back while it is handed something', () => {
    const source = new Subject<number>();
    const seen: unknown[] = [];
    source.pipe(backpressure({ ready: of(true), maxQueued: 2 })).subscribe({
      next: (item) => {
        seen.push(item);
        if (item === 0) for (const back of [1, 2, 3]) source.next(back);
      },
      error: (error: unknown) => seen.push(error),
    });
    source.next(0);
    expect(seen).toEqual([0, new OverflowError('backpressure', 2, 'error')]);
  });
});

describe('the bound', () => {
  it.each([
    ['dropOldest', [3, 4], [0, 1, 2]],
    ['dropNewest', [0, 1], [2, 3, 4]],
    ['latest', [4], [0, 1, 2, 3]],
  ] as const)('%s reports every dropped item, to onDrop and as an event', (overflow, kept, lost) => {
    const dropped: unknown[] = [];
    const { send, ready, seen, events } = gate({
      maxQueued: 2,
      overflow,
      onDrop: (item, policy) => dropped.push([item, policy]),
    });
    send(0, 1, 2, 3, 4);
    expect(dropped).toEqual(lost.map((item) => [item, overflow]));
    expect(events.filter(({ type }) => type === 'dropped')).toEqual(
      lost.map(() => ({ type: 'dropped', operator: 'backpressure', lane: 'default', policy: overflow })),
    );
    ready.next(true);
    expect(seen).toEqual(kept);
  });

  it('by weight drops as many as it takes, and reports what could not even wait alone as oversize', () => {
    const dropped: unknown[] = [];
    const { send, ready, seen } = gate({
      maxWeight: 10,
      weigh: (item) => item,
      overflow: 'dropOldest',
      onDrop: (item, policy) => dropped.push([item, policy]),
    });
    send(4, 3, 3, 11, 6, 0);
    expect(dropped).toEqual([
      [11, 'oversize'],
      [4, 'dropOldest'],
      [3, 'dropOldest'],
    ]);
    ready.next(true);
    expect(seen).toEqual([3, 6, 0]);
  });

  it('by weight errors with the name of the option', () => {
    const { send, ends } = gate({ maxWeight: 5, weigh: (item) => item });
    send(3, 3);
    expect(ends).toEqual([new OverflowError('backpressure', 5, 'error', 'maxWeight')]);
    expect(ends[0]).toMatchObject({ bound: 'maxWeight', limit: 5 });
  });

  it('is not made smaller by rounding errors of fractional weights', () => {
    const { send, ready, seen, ends } = gate({ maxWeight: 1, weigh: (item) => item / 10, overflow: 'error' });
    for (let round = 0; round < 1000; round++) {
      send(1, 2, 7);
      ready.next(true);
      ready.next(false);
    }
    expect(ends).toEqual([]);
    expect(seen).toHaveLength(3000);
  });

  it('asks for the weight of those only that have to wait', () => {
    const weighed: number[] = [];
    const { send, ready } = gate({ weigh: (item) => weighed.push(item) }, true);
    send(1, 2);
    ready.next(false);
    send(3);
    expect(weighed).toEqual([3]);
  });

  it('refuses a weight that is not a number, and stays free of payloads', () => {
    const { send, ends } = gate<string>({ weigh: (item) => item as never });
    send('a secret');
    expect(ends).toEqual([new CallbackError('backpressure', 'weigh', 'must return a finite number >= 0, returned a string')]);
    expect(isFlowError(ends[0], 'FLOW_CALLBACK')).toBe(true);
  });

  it('survives an onDrop that sends in another item: it waits until the callback has returned', () => {
    const dropped: number[] = [];
    const { source, send, ready, seen } = gate({
      maxQueued: 2,
      overflow: 'dropOldest',
      onDrop: (item) => {
        dropped.push(item);
        if (item === 0) source.next(10);
      },
    });
    send(0, 1, 2);
    ready.next(true);
    expect(seen).toEqual([2, 10]);
    expect(dropped).toEqual([0, 1]);
  });
});

describe('the pressure', () => {
  it('is high once at highWater and low once at lowWater', () => {
    const pressure: boolean[] = [];
    const { send, ready, events } = gate({ maxQueued: 10, pressure: { next: (high) => pressure.push(high) } });
    send(1, 2, 3, 4, 5, 6, 7);
    expect(pressure).toEqual([]);
    send(8, 9, 10);
    expect(pressure).toEqual([true]);
    ready.next(true);
    expect(pressure).toEqual([true, false]);
    expect(pressures(events)).toEqual(['true 8', 'false 5']);
    expect(events[0]).toEqual({ type: 'pressure', operator: 'backpressure', lane: 'default', high: true, queued: 8 });
  });

  it('has water marks of your own, and sensible ones in small queues', () => {
    const marks = (options: Options<number>, count: number): string[] => {
      const { send, ready, events } = gate(options);
      send(...Array.from({ length: count }, (_, item) => item));
      ready.next(true);
      return pressures(events);
    };
    expect(marks({ highWater: 3, lowWater: 0 }, 5)).toEqual(['true 3', 'false 0']);
    expect(marks({ highWater: 3 }, 5)).toEqual(['true 3', 'false 2']);
    expect(marks({ maxQueued: 1 }, 1)).toEqual(['true 1', 'false 0']);
    expect(marks({ maxQueued: 2 }, 2)).toEqual(['true 2', 'false 1']);
    expect(marks({ maxQueued: 35 }, 35)).toEqual(['true 28', 'false 17']);
    expect(marks({ maxQueued: Infinity }, 5000)).toEqual([]);
    expect(marks({ maxQueued: 0, overflow: 'latest' }, 3)).toEqual([]);
  });

  it('does not swing while an item takes the place of another', () => {
    const { send, events } = gate({ maxQueued: 1, overflow: 'dropOldest' });
    send(1, 2, 3, 4);
    expect(pressures(events)).toEqual(['true 1']);
  });

  it('falls when the newest replaces all', () => {
    const { send, events } = gate({ maxQueued: 4, overflow: 'latest' });
    send(1, 2, 3, 4, 5);
    expect(pressures(events)).toEqual(['true 4', 'false 1']);
  });

  it('is told in the same proportions by weight', () => {
    const { send, ready, events } = gate({ maxWeight: 100, weigh: (item) => item });
    send(40, 30);
    expect(pressures(events)).toEqual([]);
    send(10);
    ready.next(true);
    expect(pressures(events)).toEqual(['true 3', 'false 2']);
  });

  it('pauses a producer that looks at it, and resumes it from within', () => {
    const ready = new Subject<boolean>();
    const pressure = new BehaviorSubject(false);
    const seen: number[] = [];
    let made = 0;
    let most = 0;
    const source = new Observable<number>((to) => {
      const produce = (): void => {
        while (!pressure.value && made < 1000) {
          to.next(made++);
          most = Math.max(most, made - seen.length);
        }
        if (made === 1000) to.complete();
      };
      const resumed = pressure.pipe(filter((high) => !high)).subscribe(produce);
      return () => {
        resumed.unsubscribe();
      };
    });
    let done = false;
    source
      .pipe(backpressure({ ready, maxQueued: 10, onEvent: pressing(pressure) }))
      .subscribe({ next: (item) => seen.push(item), complete: () => (done = true) });
    expect(made).toBe(8);
    ready.next(true);
    expect(seen).toEqual(Array.from({ length: 1000 }, (_, item) => item));
    expect(done).toBe(true);
    expect(most).toBeLessThanOrEqual(10);
  });

  it('is low again when the stream is left, so that a producer is not paused for ever', () => {
    const pressure = new BehaviorSubject(false);
    const { send, subscription, events } = gate({ maxQueued: 5, pressure });
    send(1, 2, 3, 4);
    expect(pressure.value).toBe(true);
    subscription.unsubscribe();
    expect(pressure.value).toBe(false);
    expect(events.slice(1)).toEqual([
      { type: 'cancelled', operator: 'backpressure', lane: 'default', count: 4 },
      { type: 'pressure', operator: 'backpressure', lane: 'default', high: false, queued: 0 },
    ]);
  });
});

describe('callbacks that leave, throw or send', () => {
  /** How many items an end or a lack of room has cost. */
  const given = (events: readonly FlowEvent[]) =>
    events.flatMap((event) => (event.type === 'dropped' ? [1] : event.type === 'cancelled' ? [event.count] : []));

  it('a polite producer stops in time when the newest has replaced all and the pressure falls', () => {
    const pressure = new BehaviorSubject(false);
    const { source, send, events } = gate({ maxQueued: 10, overflow: 'latest', pressure });
    let made = 0;
    pressure.pipe(filter((high) => !high)).subscribe(() => {
      while (!pressure.value && made < 1000) source.next(made++);
    });
    expect(made).toBe(8);
    send(-1, -2, -3);
    expect(made).toBe(15);
    expect(pressures(events)).toEqual(['true 8', 'false 1', 'true 8']);
  });

  it('a weigh that leaves does not raise the pressure for ever', () => {
    const told: boolean[] = [];
    const inner = gate({
      maxQueued: 1,
      pressure: { next: (high) => told.push(high) },
      weigh: () => {
        inner.subscription.unsubscribe();
        return 1;
      },
    });
    inner.send(1);
    expect(told).toEqual([]);
    expect(given(inner.events)).toEqual([1]);
  });

  it('a pressure that leaves when it falls costs no item unreported', () => {
    const inner = gate({
      maxQueued: 5,
      pressure: {
        next: (high) => {
          if (high) return;
          inner.subscription.unsubscribe();
        },
      },
    });
    inner.send(0, 1, 2, 3, 4);
    inner.ready.next(true);
    expect(inner.seen).toEqual([0, 1, 2]);
    expect(given(inner.events)).toEqual([2]);
  });

  it('a listener that sends in one too many cannot leave the pressure high', () => {
    const told: boolean[] = [];
    const source = new Subject<number>();
    const errors: unknown[] = [];
    source
      .pipe(
        backpressure({
          ready: NEVER,
          maxQueued: 2,
          onEvent: (event) => {
            if (event.type !== 'pressure') return;
            told.push(event.high);
            if (event.high) source.next(3);
          },
        }),
      )
      .subscribe({ error: (error: unknown) => errors.push(error) });
    source.next(1);
    source.next(2);
    expect(errors).toEqual([expect.any(OverflowError)]);
    expect(told).toEqual([true, false]);
  });

  it('a pressure that makes the consumer ready and sends one more keeps the order', () => {
    const inner = gate({
      highWater: 2,
      pressure: {
        next: (high) => {
          if (!high) return;
          inner.ready.next(true);
          inner.source.next(3);
        },
      },
    });
    inner.send(1, 2);
    expect(inner.seen).toEqual([1, 2, 3]);
  });
});

describe('the end of the source', () => {
  it("waits for the consumer with onSourceError 'flush', and errors with the same object", () => {
    const fault = new Error('the source broke');
    const { source, send, ready, seen, ends } = gate({ onSourceError: 'flush' });
    send(1, 2);
    source.error(fault);
    expect(ends).toEqual([]);
    ready.next(true);
    expect(seen).toEqual([1, 2]);
    expect(ends[0]).toBe(fault);
    expect(ready.observed).toBe(false);
  });

  it('in the middle of an item waits its turn: a ready consumer gets everything, whatever the end', () => {
    const fault = new Error('the source broke');
    for (const end of ['complete', 'error'] as const) {
      const source = new Subject<number>();
      const heard: unknown[] = [];
      source.pipe(backpressure({ ready: of(true) })).subscribe({
        next: (item) => {
          heard.push(item);
          if (item > 0) return;
          source.next(1);
          if (end === 'error') source.error(fault);
          else source.complete();
          heard.push('handed');
        },
        error: (error: unknown) => heard.push(error),
        complete: () => heard.push('complete'),
      });
      source.next(0);
      expect(heard).toEqual([0, 'handed', 1, end === 'error' ? fault : 'complete']);
    }
  });

  it('ends nothing twice when ready goes on', () => {
    const { source, send, ready, seen, ends } = gate();
    send(1);
    source.complete();
    ready.next(true);
    ready.next(false);
    ready.next(true);
    expect([seen, ends]).toEqual([[1], ['complete']]);
  });
});

describe('leaving', () => {
  it('in the middle of the queue stops at once, and leaves nothing subscribed', () => {
    const { send, ready, source } = gate();
    const events: FlowEvent[] = [];
    const seen: number[] = [];
    source.pipe(backpressure({ ready, onEvent: unstamped((event) => events.push(event)) }), take(2)).subscribe((item) => seen.push(item));
    send(1, 2, 3, 4, 5);
    ready.next(true);
    expect(seen).toEqual([1, 2]);
    expect(events).toEqual([{ type: 'cancelled', operator: 'backpressure', lane: 'default', count: 3 }]);
  });

  it('10,000 times leaves no subscription', () => {
    const source = new Subject<number>();
    const ready = new Subject<boolean>();
    for (let i = 0; i < 1e4; i++) {
      const subscription = source.pipe(backpressure({ ready })).subscribe();
      source.next(i);
      subscription.unsubscribe();
    }
    expect([source.observed, ready.observed]).toEqual([false, false]);
  });

  it('and coming back starts afresh', () => {
    const seen: number[] = [];
    const operator = backpressure<number>({ ready: of(true) });
    let tries = 0;
    new Observable<number>((to) => {
      to.next(++tries);
      to.error(new Error('again'));
    })
      .pipe(operator, retry(2))
      .subscribe({ next: (item) => seen.push(item), error: () => undefined });
    expect(seen).toEqual([1, 2, 3]);
  });
});

describe('for any order of items and levels', () => {
  const steps = fc.array(fc.oneof(fc.constant('item' as const), fc.boolean()), { maxLength: 60 });
  const policies = fc.constantFrom('error', 'dropOldest', 'dropNewest', 'latest');

  it('does as a list would, and loses nothing unreported', () => {
    fc.assert(
      fc.property(steps, policies, fc.integer({ min: 1, max: 4 }), fc.boolean(), (script, overflow, maxQueued, oneByOne) => {
        const source = new Subject<number>();
        const ready = new BehaviorSubject(false);
        const seen: number[] = [];
        const dropped: number[] = [];
        const errors: unknown[] = [];
        source.pipe(backpressure({ ready, maxQueued, overflow, onDrop: (item) => dropped.push(item) })).subscribe({
          next: (item) => {
            if (oneByOne) ready.next(false);
            seen.push(item);
          },
          error: (error: unknown) => errors.push(error),
        });

        const model = { queue: [] as number[], seen: [] as number[], dropped: [] as number[], isReady: false, failed: false };
        const drain = (): void => {
          while (model.isReady && model.queue.length > 0) {
            if (oneByOne) model.isReady = false;
            model.seen.push(...model.queue.splice(0, 1));
          }
        };
        let sent = 0;
        for (const step of script) {
          if (model.failed) break;
          if (step === 'item') {
            const item = sent++;
            source.next(item);
            if (model.isReady || model.queue.length < maxQueued) model.queue.push(item);
            else if (overflow === 'error') model.failed = true;
            else if (overflow === 'dropNewest') model.dropped.push(item);
            else {
              model.dropped.push(...model.queue.splice(0, overflow === 'latest' ? Infinity : 1));
              model.queue.push(item);
            }
          } else {
            ready.next(step);
            model.isReady = step;
          }
          drain();
        }
        expect({ seen, dropped, errors: errors.length }).toEqual({
          seen: model.seen,
          dropped: model.dropped,
          errors: model.failed ? 1 : 0,
        });
        if (!model.failed) expect(seen.length + dropped.length + model.queue.length).toBe(sent);
      }),
      { numRuns: sized(150, 500) },
    );
  });
});

describe('what goes wrong elsewhere', () => {
  it('concatMap keeps whatever comes, without a bound: here the newest waits and the rest is reported', () => {
    virtualTime(({ advance }) => {
      const source = new Subject<number>();
      const ready = new BehaviorSubject(true);
      const dropped: number[] = [];
      const calls: number[] = [];
      source
        .pipe(
          backpressure({ ready, maxQueued: 1, overflow: 'latest', onDrop: (item) => dropped.push(item) }),
          tap(() => {
            ready.next(false);
          }),
          concatMap((item) => {
            calls.push(item);
            return new Observable<never>((to) => {
              const timer = setTimeout(() => {
                to.complete();
              }, 10);
              return () => {
                clearTimeout(timer);
              };
            }).pipe(
              finalize(() => {
                ready.next(true);
              }),
            );
          }),
        )
        .subscribe();
      for (let item = 0; item < 5; item++) source.next(item);
      advance(0);
      expect([calls, dropped]).toEqual([[0], [1, 2, 3]]);
    });
  });

  it('exhaustMap loses the last value for ever: here it is called when the slot is free', () => {
    const calls: number[] = [];
    const busy = new Subject<never>();
    of(1, 2, 3)
      .pipe(
        exhaustMap((item) => {
          calls.push(item);
          return busy;
        }),
      )
      .subscribe();
    busy.complete();
    expect(calls).toEqual([1]);

    const { send, ready, seen } = gate({ maxQueued: 1, overflow: 'latest' }, true);
    send(1);
    ready.next(false);
    send(2, 3);
    ready.next(true);
    expect(seen).toEqual([1, 3]);
  });

  it('sample drops what it has at the end of the source: here it is handed on', () => {
    const sampled: number[] = [];
    of(1, 2)
      .pipe(sample(NEVER))
      .subscribe((item) => sampled.push(item));
    expect(sampled).toEqual([]);

    const { source, send, ready, seen, ends } = gate();
    send(1, 2);
    source.complete();
    ready.next(true);
    expect([seen, ends]).toEqual([[1, 2], ['complete']]);
  });

  it('buffer at each sign that the consumer is ready has no bound and emits nothing as an empty list: here nothing is silent', () => {
    const signs = new Subject<boolean>();
    const buffers: number[][] = [];
    new Subject<number>().pipe(buffer(signs)).subscribe((items) => buffers.push(items));
    signs.next(true);
    expect(buffers).toEqual([[]]);

    const { ready, seen } = gate();
    ready.next(true);
    expect(seen).toEqual([]);
    const ended: string[] = [];
    EMPTY.pipe(backpressure({ ready: NEVER })).subscribe({ complete: () => ended.push('complete') });
    expect(ended).toEqual(['complete']);
  });
});
