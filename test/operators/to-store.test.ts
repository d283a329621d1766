import { concat, config, EMPTY, NEVER, Observable, of, range, Subject, throwError } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../operators/index.js';
import { FlowConfigError, toStore } from '../../operators/index.js';

const fault = new Error('broken');

/** Subscribes, and keeps the snapshot of every call. */
function watch<S>(store: Store<S>) {
  const seen: unknown[] = [];
  const leave = store.subscribe(() => {
    const { error } = store;
    seen.push(error === undefined ? store.getSnapshot() : { of: store.getSnapshot(), error });
  });
  return { seen, leave };
}

/** In virtual time; the frames of the host are the marbles of `frames`. */
function virtually(test: (scheduler: TestScheduler, animate: (frames: string) => void) => void): void {
  const scheduler = new TestScheduler((actual, expected) => {
    expect(actual).toEqual(expected);
  });
  scheduler.run(({ animate }) => {
    test(scheduler, animate);
  });
}

describe('toStore, as every operator is asked', () => {
  it('keeps the initial value while the source says nothing', () => {
    const store = toStore(NEVER, 0);
    const { seen, leave } = watch(store);
    expect([seen, store.getSnapshot(), store.getServerSnapshot()]).toEqual([[], 0, 0]);
    leave();
  });

  it('keeps the initial value of an empty source', () => {
    const store = toStore(EMPTY, 0);
    watch(store);
    expect(store.getSnapshot()).toBe(0);
  });

  it('shows the only value', () => {
    const store = toStore(of('a'), '');
    // The second call tells of the end.
    expect(watch(store).seen).toEqual(['a', 'a']);
    expect([store.getSnapshot(), store.status]).toEqual(['a', 'completed']);
  });

  it('shows all values in order', () => {
    expect(watch(toStore(concat(of(1, 2, 3), NEVER), 0)).seen).toEqual([1, 2, 3]);
  });

  it('tells its listeners of an error, which is the same object', () => {
    const store = toStore(
      concat(
        of(1),
        throwError(() => fault),
      ),
      0,
    );
    const { seen } = watch(store);
    expect(seen).toEqual([1, { of: 1, error: fault }]);
    expect(store.error).toBe(fault);
    expect(store.getServerSnapshot()).toBe(0);
  });

  it('leaves the source with the last listener, and keeps the snapshot', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    const first = watch(store);
    const second = watch(store);
    source.next(1);
    first.leave();
    first.leave();
    expect(source.observed).toBe(true);
    source.next(2);
    second.leave();
    expect(source.observed).toBe(false);
    expect([first.seen, second.seen, store.getSnapshot()]).toEqual([[1], [1, 2], 2]);
  });

  it('calls the other listeners when one throws, and reports what it threw as RxJS does', async () => {
    const reported = new Promise((resolve) => {
      config.onUnhandledError = resolve;
    });
    try {
      const source = new Subject<number>();
      const store = toStore(source, 0);
      store.subscribe(() => {
        throw fault;
      });
      const { seen } = watch(store);
      source.next(1);
      expect(seen).toEqual([1]);
      expect(await reported).toBe(fault);
    } finally {
      config.onUnhandledError = null;
    }
  });

  it('is left without a trace when the teardown of the source throws, which RxJS reports', async () => {
    const reported = new Promise((resolve) => {
      config.onUnhandledError = resolve;
    });
    try {
      const scheduler = new TestScheduler(() => undefined);
      const source = new Observable<number>((subscriber) => {
        subscriber.next(1);
        return () => {
          throw fault;
        };
      });
      watch(toStore(source, 0, { maxWaitMs: 5, scheduler })).leave();
      expect(scheduler.actions).toHaveLength(0);
      expect(String(await reported)).toContain(fault.message);
    } finally {
      config.onUnhandledError = null;
    }
  });

  it('shows what a source says inside subscribe', () => {
    const store = toStore(range(1, 1000), 0);
    const { seen } = watch(store);
    expect([seen.length, new Set(seen).size, store.getSnapshot()]).toEqual([1001, 1000, 1000]);
  });

  it('shows what a listener sends into the source after all listeners were called', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    store.subscribe(() => {
      if (store.getSnapshot() < 3) source.next(store.getSnapshot() + 1);
    });
    const { seen } = watch(store);
    source.next(1);
    expect(seen).toEqual([1, 2, 3]);
  });
});

describe('a store', () => {
  it('subscribes with the first listener, and again after all have left', () => {
    let subscriptions = 0;
    const source = new Observable<number>((subscriber) => {
      subscriber.next(++subscriptions);
    });
    const store = toStore(source, 0);
    expect([store.getSnapshot(), subscriptions]).toEqual([0, 0]);
    const first = watch(store);
    const second = watch(store);
    expect([first.seen, second.seen, subscriptions]).toEqual([[1], [], 1]);
    first.leave();
    second.leave();
    expect(store.getSnapshot()).toBe(1);
    watch(store);
    expect([store.getSnapshot(), subscriptions]).toEqual([2, 2]);
  });

  it('does not subscribe again for a listener that joins after the end', () => {
    let subscriptions = 0;
    const source = new Observable<number>((subscriber) => {
      subscriptions++;
      subscriber.complete();
    });
    const store = toStore(source, 0);
    watch(store);
    watch(store);
    expect(subscriptions).toBe(1);
  });

  it('changes its snapshot for all listeners before it calls the first', () => {
    const source = new Subject<object>();
    const store = toStore(source, {});
    const seen: unknown[] = [];
    for (let i = 0; i < 2; i++) store.subscribe(() => seen.push(store.getSnapshot()));
    const value = {};
    source.next(value);
    expect(seen).toHaveLength(2);
    for (const snapshot of seen) expect(snapshot).toBe(value);
    expect(store.getSnapshot()).toBe(store.getSnapshot());
  });

  it('no longer calls a listener that another one took away', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    let leave: () => void = () => undefined;
    store.subscribe(() => {
      leave();
    });
    const second = watch(store);
    leave = second.leave;
    source.next(1);
    expect(second.seen).toEqual([]);
  });

  it('calls a listener that came meanwhile only for the next change', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    const joined: unknown[] = [];
    let leave = store.subscribe(function again() {
      leave();
      leave = store.subscribe(again);
      joined.push(store.getSnapshot());
    });
    source.next(1);
    source.next(2);
    expect(joined).toEqual([1, 2]);
  });

  it('calls one function as often as it was given', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    let calls = 0;
    const listener = () => {
      calls++;
    };
    const leave = store.subscribe(listener);
    store.subscribe(listener);
    source.next(1);
    leave();
    source.next(2);
    expect(calls).toBe(3);
  });

  it('shows 100,000 values that its listener sends without a deep stack', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    store.subscribe(() => {
      if (store.getSnapshot() < 100_000) source.next(store.getSnapshot() + 1);
    });
    source.next(1);
    expect(store.getSnapshot()).toBe(100_000);
  });

  it('needs no `this`', () => {
    const { subscribe, getSnapshot, getServerSnapshot } = toStore(of(1), 0);
    subscribe(() => undefined);
    expect([getSnapshot(), getServerSnapshot()]).toEqual([1, 0]);
  });

  it('forgets an error when all have left, so that a page shown anew asks again', () => {
    let tries = 0;
    const source = new Observable<number>((subscriber) => {
      tries++;
      if (tries === 1) subscriber.error(fault);
      else subscriber.next(tries);
    });
    const store = toStore(source, 0);
    const { leave } = watch(store);
    expect([store.getSnapshot(), store.error]).toEqual([0, fault]);
    leave();
    expect([store.getSnapshot(), store.error]).toEqual([0, undefined]);
    watch(store);
    expect(store.getSnapshot()).toBe(2);
  });

  it('shows a value and an error that both come while it calls its listeners, together', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0);
    let isFed = false;
    store.subscribe(() => {
      if (isFed) return;
      isFed = true;
      source.next(2);
      source.error(fault);
    });
    const { seen } = watch(store);
    source.next(1);
    expect(seen).toEqual([1, { of: 2, error: fault }]);
  });
});

describe('a store with a pace', () => {
  it('changes once in maxWaitMs, to the newest value', () => {
    virtually((scheduler) => {
      const source = scheduler.createColdObservable('-abc-----d--e');
      const store = toStore(source, '', { maxWaitMs: 5 });
      const seen: unknown[] = [];
      const leave = store.subscribe(() => seen.push([scheduler.now(), store.getSnapshot()]));
      scheduler.schedule(() => seen.push(['at 5', store.getSnapshot()]), 5);
      scheduler.schedule(leave, 30);
      scheduler.flush();
      expect(seen).toEqual([
        ['at 5', ''],
        [6, 'c'],
        [14, 'e'],
      ]);
    });
  });

  it('shows what waits before the end, whatever end it is', () => {
    virtually((scheduler) => {
      for (const [marbles, expected] of [
        ['-a|', ['a']],
        ['-a#', [{ of: 'a', error: 'error' }]],
      ] as const) {
        const { seen } = watch(toStore(scheduler.createColdObservable(marbles), '', { maxWaitMs: 1000 }));
        scheduler.flush();
        expect(seen).toEqual(expected);
        expect(scheduler.now()).toBeLessThan(1000);
      }
    });
  });

  it('shows nothing more, and has no timer, after the last listener has left', () => {
    virtually((scheduler) => {
      const source = new Subject<string>();
      const store = toStore(source, '', { maxWaitMs: 1000 });
      const { seen, leave } = watch(store);
      source.next('a');
      leave();
      expect(scheduler.actions).toHaveLength(0);
      expect([seen, store.getSnapshot()]).toEqual([[], '']);
    });
  });

  it('keeps to it with values its listeners send', () => {
    virtually((scheduler) => {
      const source = new Subject<number>();
      const store = toStore(source, 0, { maxWaitMs: 10 });
      const seen: unknown[] = [];
      store.subscribe(() => {
        seen.push([scheduler.now(), store.getSnapshot()]);
        if (store.getSnapshot() < 3) source.next(store.getSnapshot() + 1);
      });
      source.next(1);
      scheduler.flush();
      expect(seen).toEqual([
        [10, 1],
        [20, 2],
        [30, 3],
      ]);
    });
  });

  it('of a scheduler alone gathers what comes in one turn', () => {
    virtually((scheduler) => {
      const source = new Subject<number>();
      const { seen } = watch(toStore(source, 0, { scheduler }));
      for (const n of [1, 2, 3]) source.next(n);
      expect(seen).toEqual([]);
      scheduler.flush();
      expect(seen).toEqual([3]);
    });
  });

  it('of frames changes with the next frame, or after 100 ms where none comes', () => {
    virtually((scheduler, animate) => {
      animate('---x---------x');
      const source = scheduler.createColdObservable('-ab----c 200ms d 150ms |');
      const store = toStore(source, '', { pace: 'frame' });
      const seen: unknown[] = [];
      store.subscribe(() => seen.push([scheduler.now(), store.getSnapshot()]));
      scheduler.flush();
      expect(seen).toEqual([
        [3, 'b'],
        [13, 'c'],
        [308, 'd'],
        // The end.
        [359, 'd'],
      ]);
    });
  });
});

describe('what toStore is given', () => {
  it.each([null, undefined, [1], 'text'])('must be an Observable, not %o', (source) => {
    expect(() => toStore(source as never, 0)).toThrow(FlowConfigError);
    expect(() => toStore(source as never, 0)).toThrow(/^toStore: expected `source` to be an Observable, got /);
  });

  it('must be a function to listen', () => {
    expect(() => toStore(of(1), 0).subscribe(null as never)).toThrow('toStore: expected `listener` to be a function, got `null`');
  });
});

describe('10,000 stores that were left', () => {
  let unhandled: unknown[] = [];
  beforeEach(() => {
    unhandled = [];
    config.onUnhandledError = (error) => unhandled.push(error);
  });
  afterEach(() => {
    config.onUnhandledError = null;
  });

  it('have left their source', () => {
    const source = new Subject<number>();
    for (let i = 0; i < 10_000; i++) watch(toStore(source, 0, { maxWaitMs: 10 })).leave();
    expect([source.observed, unhandled]).toEqual([false, []]);
  });
});
