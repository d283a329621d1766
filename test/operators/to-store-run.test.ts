import fc from 'fast-check';
import { concat, config, NEVER, Observable, of, Subject } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../operators/index.js';
import { coalesce, toStore } from '../../operators/index.js';
import { sized } from '../support/deep.js';

const fault = new Error('broken');
const ignore = (): void => undefined;

/** In virtual time; the frames of the host are the marbles of `frames`. */
function virtually(test: (scheduler: TestScheduler, animate: (frames: string) => void) => void): void {
  const scheduler = new TestScheduler((actual, expected) => {
    expect(actual).toEqual(expected);
  });
  scheduler.run(({ animate }) => {
    test(scheduler, animate);
  });
}

/** A source that says how often it was started and left. */
function counted<T>(inner: Observable<T>) {
  const count = { started: 0, left: 0 };
  const source = new Observable<T>((subscriber) => {
    count.started++;
    let isOver = false;
    subscriber.add(
      inner.subscribe({
        next: (value) => {
          subscriber.next(value);
        },
        error: (error: unknown) => {
          isOver = true;
          subscriber.error(error);
        },
        complete: () => {
          isOver = true;
          subscriber.complete();
        },
      }),
    );
    return () => {
      if (!isOver) count.left++;
    };
  });
  return { source, count };
}

/** Every call of a listener, with what it sees. */
function watch<S>(store: Store<S>) {
  const seen: (readonly [S, string])[] = [];
  const leave = store.subscribe(() => seen.push([store.getSnapshot(), store.status]));
  return { seen, leave };
}

describe('the status of a store', () => {
  it('is idle, then live, and idle again when it was left', () => {
    const store = toStore(NEVER, 0);
    expect([store.status, store.error]).toEqual(['idle', undefined]);
    const { seen, leave } = watch(store);
    expect(store.status).toBe('live');
    leave();
    expect([store.status, seen]).toEqual(['idle', []]);
  });

  it('tells its listeners of the end, together with what was waiting', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0, { maxWaitMs: Infinity });
    const { seen, leave } = watch(store);
    source.next(1);
    source.complete();
    expect(seen).toEqual([[1, 'completed']]);
    leave();
    expect(store.status).toBe('completed');
  });

  it('is failed with its error, together with the last value, and the snapshot stays', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0, { maxWaitMs: Infinity });
    const { seen, leave } = watch(store);
    source.next(1);
    source.error(fault);
    expect(seen).toEqual([[1, 'failed']]);
    expect(store.error).toBe(fault);
    leave();
    expect([store.status, store.error, store.getSnapshot()]).toEqual(['idle', undefined, 1]);
  });

  it('is live in the listener that is told of a value kept from before', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0, { maxWaitMs: Infinity });
    const { leave } = watch(store);
    source.next(1);
    leave();
    expect(watch(store).seen).toEqual([[1, 'live']]);
  });
});

describe('a value that was not shown when the last listener left', () => {
  it('is shown to the next one, before what the source says', () => {
    const first = new Subject<string>();
    let isFirst = true;
    const source = new Observable<string>((subscriber) => {
      const inner = isFirst ? first : concat(of('new'), NEVER);
      isFirst = false;
      return inner.subscribe(subscriber);
    });
    const store = toStore(source, '', { maxWaitMs: 0 });
    virtually((scheduler) => {
      const one = watch(store);
      first.next('old');
      one.leave();
      scheduler.flush();
      expect([one.seen, store.getSnapshot()]).toEqual([[], '']);
      const two = watch(store);
      expect(two.seen).toEqual([['old', 'live']]);
      scheduler.flush();
      two.leave();
      expect(two.seen).toEqual([
        ['old', 'live'],
        ['new', 'live'],
      ]);
    });
  });

  it('starts no run when that makes the listener leave', () => {
    const { source, count } = counted(new Subject<number>());
    const fed = new Subject<number>();
    let isFed = true;
    const store = toStore(new Observable<number>((subscriber) => (isFed ? fed : source).subscribe(subscriber)), 0, { maxWaitMs: Infinity });
    const { leave } = watch(store);
    fed.next(1);
    leave();
    isFed = false;
    let isGone = false;
    const leaving = { now: ignore };
    const stop = store.subscribe(() => {
      isGone = true;
      leaving.now();
    });
    leaving.now = stop;
    stop();
    expect([isGone, count]).toEqual([true, { started: 1, left: 1 }]);
  });
});

describe('a store that is kept alive', () => {
  it('makes one run of mount, unmount and mount', () => {
    const { source, count } = counted(NEVER);
    const store = toStore(source, 0, { keepAliveMs: 10 });
    virtually((scheduler) => {
      store.subscribe(ignore)();
      const leave = store.subscribe(ignore);
      scheduler.flush();
      expect([count, store.status]).toEqual([{ started: 1, left: 0 }, 'live']);
      leave();
      scheduler.flush();
      expect([count, store.status]).toEqual([{ started: 1, left: 1 }, 'idle']);
    });
  });

  it('without keepAliveMs makes two, and aborts the first at once', () => {
    const { source, count } = counted(NEVER);
    const store = toStore(source, 0);
    store.subscribe(ignore)();
    expect(count).toEqual({ started: 1, left: 1 });
    store.subscribe(ignore)();
    expect(count).toEqual({ started: 2, left: 2 });
  });

  it('has the value that came without subscribers, and calls no subscriber that left', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0, { keepAliveMs: 10 });
    virtually((scheduler) => {
      const first = watch(store);
      first.leave();
      scheduler.schedule(() => {
        source.next(1);
      }, 4);
      scheduler.schedule(() => {
        const { leave, seen } = watch(store);
        expect([store.getSnapshot(), seen]).toEqual([1, []]);
        leave();
      }, 9);
      scheduler.schedule(() => {
        expect(source.observed).toBe(true);
      }, 18);
      scheduler.flush();
      expect([first.seen, source.observed, scheduler.now()]).toEqual([[], false, 19]);
    });
  });

  it('keeps the end of a run that ended meanwhile, and forgets an error with the time', () => {
    for (const [end, kept, left] of [
      ['complete', 'completed', 'completed'],
      ['error', 'failed', 'idle'],
    ] as const) {
      const subject = new Subject<number>();
      const { source, count } = counted(subject);
      const store = toStore(source, 0, { keepAliveMs: 10 });
      virtually((scheduler) => {
        store.subscribe(ignore)();
        subject[end](fault);
        expect(store.status).toBe(kept);
        store.subscribe(ignore)();
        expect(store.status).toBe(kept);
        scheduler.flush();
        expect([store.status, count]).toEqual([left, { started: 1, left: 0 }]);
      });
    }
  });

  it('is never left with Infinity, and leaves no timer', () => {
    const { source, count } = counted(NEVER);
    const store = toStore(source, 0, { keepAliveMs: Infinity });
    virtually((scheduler) => {
      store.subscribe(ignore)();
      expect([scheduler.actions.length, count]).toEqual([0, { started: 1, left: 0 }]);
    });
  });

  it('leaves no timer behind when a subscriber comes back', () => {
    const store = toStore(NEVER, 0, { keepAliveMs: 10 });
    virtually((scheduler) => {
      store.subscribe(ignore)();
      store.subscribe(ignore);
      expect(scheduler.actions).toHaveLength(0);
    });
  });
});

describe('a selected store', () => {
  const people = () => {
    const source = new Subject<{ readonly name: string; readonly tags: readonly string[] }>();
    const store = toStore(source, { name: 'none', tags: [] });
    return { source, store };
  };

  it('changes with its part only, and keeps what is equal', () => {
    const { source, store } = people();
    const names = store.select(({ name }) => name);
    const tags = store.select(
      (person) => [...person.tags],
      (one, other) => one.join() === other.join(),
    );
    const seen = [watch(names), watch(tags)] as const;
    const [name, before] = [names.getSnapshot(), tags.getSnapshot()];
    expect([name, before]).toEqual(['none', []]);
    source.next({ name: 'ann', tags: [] });
    expect(tags.getSnapshot()).toBe(before);
    source.next({ name: 'ann', tags: ['a'] });
    expect(tags.getSnapshot()).toBe(tags.getSnapshot());
    expect(seen.map((one) => one.seen)).toEqual([[['ann', 'live']], [[['a'], 'live']]]);
    for (const { leave } of seen) leave();
    expect([source.observed, store.status]).toEqual([false, 'idle']);
  });

  it('tells its first listener nothing of values that leave its part as it is', () => {
    const { source, store } = people();
    const { seen } = watch(store.select(({ name }) => name));
    source.next({ name: 'none', tags: ['a'] });
    source.next({ name: 'none', tags: ['b'] });
    expect(seen).toEqual([]);
    const atOnce = watch(toStore(of({ name: 'none' }, { name: 'ann' }), { name: 'none' }).select(({ name }) => name));
    expect(atOnce.seen).toEqual([
      ['ann', 'live'],
      ['ann', 'completed'],
    ]);
  });

  it('tells of the status too, and has the error', () => {
    const { source, store } = people();
    const names = store.select(({ name }) => name);
    const { seen } = watch(names);
    source.error(fault);
    expect([seen, names.error]).toEqual([[['none', 'failed']], fault]);
  });

  it('can be selected from, has one server snapshot, and subscribes once', () => {
    const { source, count } = counted(new Subject<{ readonly a: { readonly b: number } }>());
    const store = toStore(source, { a: { b: 1 } });
    const part = store.select(({ a }) => ({ ...a }));
    const deep = part.select(({ b }) => b);
    expect(part.getServerSnapshot()).toBe(part.getServerSnapshot());
    expect(deep.getServerSnapshot()).toBe(1);
    const leave = [part, deep, store].map(({ subscribe }) => subscribe(ignore));
    expect(count.started).toBe(1);
    for (const stop of leave) stop();
    expect(count.left).toBe(1);
  });

  it('throws the error of its selector to every reader', () => {
    const { source, store } = people();
    const broken = store.select(({ name }) => {
      if (name === 'bad') throw fault;
      return name;
    });
    let calls = 0;
    broken.subscribe(() => calls++);
    source.next({ name: 'bad', tags: [] });
    expect(broken.getSnapshot).toThrow(fault);
    source.next({ name: 'good', tags: [] });
    expect([broken.getSnapshot(), calls]).toEqual(['good', 2]);
  });
});

describe('stages that are paced by frames', () => {
  const merge = (one: string, other: string): string => one + other;

  it('cost one frame, in whatever order they were armed', () => {
    virtually((scheduler, animate) => {
      animate('-----x-----x-----x');
      const source = scheduler.createColdObservable('-ab----P-cd-------|');
      const tokens = source.pipe(coalesce({ merge, pace: 'frame', passThrough: (token) => token === 'P' }));
      const store = toStore(tokens, '', { pace: 'frame' });
      const seen: unknown[] = [];
      store.subscribe(() => seen.push([scheduler.now(), store.getSnapshot(), store.status]));
      scheduler.flush();
      // The store was armed by P before `coalesce` was by c.
      expect(seen).toEqual([
        [5, 'ab', 'live'],
        [11, 'cd', 'live'],
        [18, 'cd', 'completed'],
      ]);
    });
  });

  it('show once in a frame, whatever their listeners do', () => {
    virtually((scheduler, animate) => {
      animate('-x-x-x-x-x');
      const source = new Subject<string>();
      const store = toStore(source.pipe(coalesce({ merge, pace: 'frame' })), '', { pace: 'frame' });
      const seen: unknown[] = [];
      store.subscribe(() => {
        seen.push([scheduler.now(), store.getSnapshot()]);
        if (seen.length < 3) source.next(String(seen.length));
      });
      source.next('0');
      scheduler.flush();
      expect(seen).toEqual([
        [1, '0'],
        [3, '1'],
        [5, '2'],
      ]);
    });
  });

  it('leave the stage that is made within a frame to the next one', () => {
    virtually((scheduler, animate) => {
      animate('-x-x-x-x-x');
      const seen: unknown[] = [];
      const again = (n: number): void => {
        of(String(n), 'and')
          .pipe((tokens) => concat(tokens, NEVER), coalesce({ merge, pace: 'frame' }))
          .subscribe((text) => {
            seen.push([scheduler.now(), text]);
            if (n < 3) again(n + 1);
          });
      };
      again(1);
      scheduler.flush();
      expect(seen).toEqual([
        [1, '1and'],
        [3, '2and'],
        [5, '3and'],
      ]);
    });
  });
});

describe('any schedule of comings, goings and values', () => {
  let unhandled: unknown[] = [];
  beforeEach(() => {
    unhandled = [];
    config.onUnhandledError = (error) => unhandled.push(error);
  });
  afterEach(() => {
    config.onUnhandledError = null;
  });

  type Step = { readonly do: 'come' | 'go' | 'next' | 'complete' | 'fail' | 'pass'; readonly ms: number };
  const step: fc.Arbitrary<Step> = fc.record({
    do: fc.oneof(
      { weight: 6, arbitrary: fc.constant('next' as const) },
      { weight: 4, arbitrary: fc.constantFrom('come' as const, 'go' as const, 'pass' as const) },
      { weight: 1, arbitrary: fc.constantFrom('complete' as const, 'fail' as const) },
    ),
    ms: fc.integer({ min: 0, max: 12 }),
  });

  it('shows each value or a newer one, in order, and leaves each run exactly once', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 40 }),
        fc.constantFrom(undefined, 'time' as const, 'frame' as const),
        fc.constantFrom(0, 5, 20),
        (steps, pace, keepAliveMs) => {
          virtually((scheduler, animate) => {
            animate('-x--'.repeat(200));
            let runs: { readonly subject: Subject<number>; left: number; ended: boolean }[] = [];
            const source = new Observable<number>((subscriber) => {
              const run = { subject: new Subject<number>(), left: 0, ended: false };
              runs.push(run);
              run.subject.subscribe(subscriber);
              return () => {
                run.left++;
              };
            });
            const store = toStore(source, 0, { keepAliveMs, ...(pace && { pace, maxWaitMs: 7 }) });
            const leaves: (() => void)[] = [];
            /** What listeners have seen, and when. */
            const shown: { readonly at: number; readonly value: number; readonly status: string }[] = [];
            let last = 0;
            let emitted = 0;
            let goneAt: number | undefined;
            const open = () => runs.filter((run) => run.left === 0 && !run.ended);
            const look = (): void => {
              expect(store.getSnapshot()).toBe(last);
            };
            let at = 0;
            for (const { do: what, ms } of steps) {
              at += ms;
              scheduler.schedule(() => {
                if (leaves.length > 0) look();
                const [run] = open();
                if (what === 'come') {
                  leaves.push(
                    store.subscribe(() => {
                      const value = store.getSnapshot();
                      // In order, never an older one.
                      expect(value).toBeGreaterThanOrEqual(last);
                      last = value;
                      shown.push({ at: scheduler.now(), value, status: store.status });
                    }),
                  );
                  last = store.getSnapshot();
                  goneAt = undefined;
                } else if (what === 'go') {
                  leaves.pop()?.();
                  if (leaves.length === 0) goneAt ??= scheduler.now();
                } else if (what === 'next' && run) {
                  run.subject.next(++emitted);
                  if (pace === undefined) expect(store.getSnapshot()).toBe(emitted);
                } else if ((what === 'complete' || what === 'fail') && run) {
                  run.ended = true;
                  if (what === 'complete') run.subject.complete();
                  else run.subject.error(fault);
                  // Whatever waited is shown before the end.
                  expect(store.getSnapshot()).toBe(emitted);
                  expect(store.status).toBe(what === 'complete' ? 'completed' : 'failed');
                }
                // One run at a time, and none without a subscriber now or within `keepAliveMs`.
                expect(open().length).toBeLessThanOrEqual(1);
                if (goneAt !== undefined && (keepAliveMs === 0 || scheduler.now() - goneAt > keepAliveMs)) expect(open()).toEqual([]);
                if (leaves.length > 0) expect(store.status).not.toBe('idle');
              }, at);
            }
            scheduler.flush();
            // The newest value was shown, or is shown to the next subscriber.
            if (leaves.length === 0) {
              const leave = store.subscribe(ignore);
              expect(store.getSnapshot()).toBe(emitted);
              leaves.push(leave);
            }
            expect(store.getSnapshot()).toBe(emitted);
            for (const leave of leaves) leave();
            scheduler.flush();
            for (const run of runs) expect(run.left).toBe(1);
            expect(scheduler.actions).toHaveLength(0);
            // Each listener is called once for a change, and a paced store changes once in a frame or a wait, but for its ends.
            if (pace) {
              const moments = new Map<number, Set<number>>();
              for (const one of shown) {
                if (one.status !== 'live') continue;
                moments.set(one.at, (moments.get(one.at) ?? new Set()).add(one.value));
              }
              for (const values of moments.values()) expect(values.size).toBeLessThanOrEqual(2);
            }
            runs = [];
          });
        },
      ),
      { numRuns: sized(100, 1000) },
    );
    expect(unhandled).toEqual([]);
  });
});
