import fc from 'fast-check';
import { BehaviorSubject, buffer, of, range, Subject, sample, scan, tap } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { ConflateWhileBusyOptions, FlowEvent } from '../../operators/index.js';
import { CallbackError, conflateWhileBusy, isFlowError, OverflowError } from '../../operators/index.js';
import { sized } from '../support/deep.js';
import { unstamped } from '../support/events.js';

type Options = Partial<Omit<ConflateWhileBusyOptions<number, readonly number[]>, 'ready'>>;

const listed = {
  seed: (item: number): readonly number[] => [item],
  merge: (items: readonly number[], item: number): readonly number[] => [...items, item],
};

/** A gate that starts busy, and all that is seen of it. */
function gate(options: Options = {}, level = false) {
  const source = new Subject<number>();
  const ready = new BehaviorSubject(level);
  const seen: (readonly number[])[] = [];
  const ends: unknown[] = [];
  const events: FlowEvent[] = [];
  const subscription = source
    .pipe(conflateWhileBusy({ ready, onEvent: unstamped((event) => events.push(event)), ...listed, ...options }))
    .subscribe({
      next: (items) => seen.push(items),
      error: (error: unknown) => ends.push(error),
      complete: () => ends.push('complete'),
    });
  const send = (...items: readonly number[]): void => {
    for (const item of items) source.next(item);
  };
  return { source, ready, seen, ends, events, subscription, send };
}

describe('the aggregate', () => {
  it('is made of what comes while the consumer is busy, and is empty never', () => {
    const { ready, seen, send } = gate();
    ready.next(true);
    expect(seen).toEqual([]);
    send(1);
    ready.next(false);
    ready.next(true);
    ready.next(false);
    send(2, 3);
    ready.next(true);
    ready.next(true);
    expect(seen).toEqual([[1], [2, 3]]);
  });

  it('may be undefined', () => {
    const source = new Subject<number>();
    const ready = new BehaviorSubject(false);
    const seen: unknown[] = [];
    source.pipe(conflateWhileBusy({ ready, seed: () => undefined, merge: () => undefined })).subscribe((value) => seen.push(value));
    source.next(1);
    source.next(2);
    ready.next(true);
    expect(seen).toEqual([undefined]);
  });

  it('of 100,000 items waits as one', () => {
    const ready = new Subject<boolean>();
    const seen: number[] = [];
    range(1, 1e5)
      .pipe(conflateWhileBusy({ ready, seed: (item) => item, merge: (sum, item) => sum + item }))
      .subscribe((sum) => seen.push(sum));
    ready.next(true);
    expect(seen).toEqual([(1e5 * (1e5 + 1)) / 2]);
  });

  it('waits for the consumer when the source has completed, then the stream completes', () => {
    const { source, ready, seen, ends, send } = gate();
    send(1, 2);
    source.complete();
    expect([seen, ends]).toEqual([[], []]);
    ready.next(true);
    expect([seen, ends]).toEqual([[[1, 2]], ['complete']]);
    expect(ready.observed).toBe(false);
  });

  it("is emitted before the error of the source with onSourceError 'flush', dropped without", () => {
    const fault = new Error('the source broke');
    const flushing = gate({ onSourceError: 'flush' });
    flushing.send(1, 2);
    flushing.source.error(fault);
    expect(flushing.ends).toEqual([]);
    flushing.ready.next(true);
    expect(flushing.seen).toEqual([[1, 2]]);
    expect(flushing.ends[0]).toBe(fault);

    const aborting = gate();
    aborting.send(1, 2);
    aborting.source.error(fault);
    expect(aborting.ends[0]).toBe(fault);
    expect(aborting.events).toEqual([{ type: 'cancelled', operator: 'conflateWhileBusy', lane: 'default', count: 2 }]);
  });

  it('is dropped when the consumer leaves', () => {
    const { source, ready, subscription, events, send } = gate();
    send(1, 2, 3);
    subscription.unsubscribe();
    expect(events).toEqual([{ type: 'cancelled', operator: 'conflateWhileBusy', lane: 'default', count: 3 }]);
    expect([source.observed, ready.observed]).toEqual([false, false]);
  });
});

describe('re-entrant input', () => {
  it('during an emission is merged, and emitted when the consumer looks up', () => {
    const source = new Subject<number>();
    const seen: (readonly number[])[] = [];
    source.pipe(conflateWhileBusy({ ready: of(true), ...listed })).subscribe((items) => {
      seen.push(items);
      if (seen.length === 1) for (const back of [1, 2, 3]) source.next(back);
    });
    source.next(0);
    expect(seen).toEqual([[0], [1, 2, 3]]);
  });

  it('of a consumer that answers every aggregate does not recurse', () => {
    const source = new Subject<number>();
    let count = 0;
    source.pipe(conflateWhileBusy({ ready: of(true), ...listed })).subscribe(([item = 0]) => {
      count++;
      if (item < 1e5) source.next(item + 1);
    });
    source.next(1);
    expect(count).toBe(1e5);
  });

  it('from within seed and merge is neither lost nor doubled', () => {
    for (const name of ['seed', 'merge'] as const) {
      const loop = (item: number): void => {
        if (item === 2) inner.source.next(20);
        if (item === 3) {
          inner.ready.next(true);
          inner.source.next(30);
        }
      };
      const inner = gate({
        seed: (item) => {
          if (name === 'seed') loop(item);
          return [item];
        },
        merge: (items, item) => {
          if (name === 'merge') loop(item);
          return [...items, item];
        },
      });
      inner.send(...(name === 'seed' ? [2] : [1, 2, 3]));
      inner.ready.next(true);
      const all = inner.seen.flat().sort((a, b) => a - b);
      expect(all, name).toEqual(name === 'seed' ? [2, 20] : [1, 2, 3, 20, 30]);
    }
  });

  it('from within seed comes after the item that was being made, also when the consumer is ready', () => {
    const source = new Subject<number>();
    const seen: (readonly number[])[] = [];
    const seed = (item: number): readonly number[] => {
      if (item === 1) source.next(2);
      return [item];
    };
    source.pipe(conflateWhileBusy({ ready: of(true), ...listed, seed })).subscribe((items) => seen.push(items));
    source.next(1);
    expect(seen).toEqual([[1], [2]]);
  });
});

describe('a callback that leaves', () => {
  it.each([
    ['seed', 2, ['dropped', 'dropped', 'cancelled 1']],
    ['merge', Infinity, ['cancelled 3']],
    ['weigh', 2, ['dropped', 'dropped', 'cancelled 1']],
  ] as const)('%s: each item is reported once', (name, maxWeight, reported) => {
    const leave = (by: string, item: number): void => {
      if (by === name && item === 3) inner.subscription.unsubscribe();
    };
    const inner = gate({
      maxWeight,
      overflow: 'dropOldest',
      seed: (item) => {
        leave('seed', item);
        return [item];
      },
      merge: (items, item) => {
        leave('merge', item);
        return [...items, item];
      },
      weigh: (item) => {
        leave('weigh', item);
        return 1;
      },
    });
    inner.send(1, 2, 3, 4);
    expect(inner.events.map((event) => (event.type === 'cancelled' ? `cancelled ${String(event.count)}` : event.type))).toEqual(reported);
    expect(inner.source.observed).toBe(false);
  });
});

describe('the bound', () => {
  it('is one aggregate of as many items as maxWeight without weigh', () => {
    const { send, ends } = gate({ maxWeight: 2 });
    send(1, 2, 3);
    expect(ends).toEqual([new OverflowError('conflateWhileBusy', 2, 'error', 'maxWeight')]);
  });

  it("'dropOldest' drops the aggregate and reports each of its items as an event", () => {
    const dropped: unknown[] = [];
    const { send, ready, seen, events } = gate({ maxWeight: 2, overflow: 'dropOldest', onDrop: (...drop) => dropped.push(drop) });
    send(1, 2, 3);
    ready.next(true);
    expect(seen).toEqual([[3]]);
    expect(dropped).toEqual([[[1, 2], 'dropOldest']]);
    const event = { type: 'dropped', operator: 'conflateWhileBusy', lane: 'default', policy: 'dropOldest' };
    expect(events).toEqual([event, event]);
  });

  it("'dropNewest' drops the item, and so does an item that is too heavy alone", () => {
    const dropped: unknown[] = [];
    const { send, ready, seen } = gate({
      maxWeight: 5,
      weigh: (item) => item,
      overflow: 'dropNewest',
      onDrop: (...drop) => dropped.push(drop),
    });
    send(3, 4, 9, 2);
    ready.next(true);
    expect(seen).toEqual([[3, 2]]);
    expect(dropped).toEqual([
      [4, 'dropNewest'],
      [9, 'oversize'],
    ]);
  });

  it('forgets the weight of what was emitted', () => {
    const { send, ready, seen, ends } = gate({ maxWeight: 2 });
    for (let round = 0; round < 10; round++) {
      send(1, 2);
      ready.next(true);
      ready.next(false);
    }
    expect(seen).toHaveLength(10);
    expect(ends).toEqual([]);
  });

  it('refuses a weight that is not a number', () => {
    const { send, ends } = gate({ weigh: () => NaN });
    send(1);
    expect(ends).toEqual([new CallbackError('conflateWhileBusy', 'weigh', 'must return a finite number >= 0, returned NaN')]);
    expect(isFlowError(ends[0], 'FLOW_CALLBACK')).toBe(true);
  });
});

describe('for any order of items and levels', () => {
  it('the aggregates put together are the source, and none waits while the consumer is ready', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constant('item' as const), fc.boolean()), { maxLength: 60 }), fc.boolean(), (script, oneByOne) => {
        const source = new Subject<number>();
        const ready = new BehaviorSubject(false);
        const seen: (readonly number[])[] = [];
        source
          .pipe(
            conflateWhileBusy({ ready, ...listed }),
            tap(() => {
              if (oneByOne) ready.next(false);
            }),
          )
          .subscribe((items) => seen.push(items));
        let sent = 0;
        for (const step of script) {
          if (step === 'item') source.next(sent++);
          else ready.next(step);
          if (ready.value) expect(seen.flat()).toHaveLength(sent);
        }
        ready.next(true);
        expect(seen.flat()).toEqual(Array.from({ length: sent }, (_, item) => item));
        expect(seen.every(({ length }) => length > 0)).toBe(true);
      }),
      { numRuns: sized(150, 500) },
    );
  });
});

describe('what goes wrong elsewhere', () => {
  it('buffer emits empty lists when nothing has come, and hands on what the consumer is not ready for at the end', () => {
    const signs = new Subject<void>();
    const source = new Subject<number>();
    const buffers: number[][] = [];
    source.pipe(buffer(signs)).subscribe((items) => buffers.push(items));
    signs.next();
    source.next(1);
    source.complete();
    expect(buffers).toEqual([[], [1]]);

    const conflated = gate({}, true);
    conflated.ready.next(true);
    conflated.ready.next(false);
    conflated.send(1);
    conflated.source.complete();
    expect(conflated.seen).toEqual([]);
  });

  it('scan with sample counts twice what it has emitted, and drops what it has at the end', () => {
    const signs = new Subject<void>();
    const source = new Subject<number>();
    const sums: number[] = [];
    source
      .pipe(
        scan((sum, item) => sum + item, 0),
        sample(signs),
      )
      .subscribe((sum) => sums.push(sum));
    source.next(1);
    signs.next();
    source.next(2);
    signs.next();
    source.next(4);
    source.complete();
    expect(sums).toEqual([1, 3]);

    const { send, ready, seen, source: own } = gate();
    const cycle = (): void => {
      ready.next(true);
      ready.next(false);
    };
    send(1);
    cycle();
    send(2);
    cycle();
    send(4);
    own.complete();
    cycle();
    expect(seen).toEqual([[1], [2], [4]]);
  });
});
