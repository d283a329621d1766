import type { Observable, OperatorFunction } from 'rxjs';
import {
  asyncScheduler,
  buffer,
  bufferTime,
  concat,
  concatMap,
  from,
  ignoreElements,
  map,
  merge,
  NEVER,
  of,
  Subject,
  take,
  throwError,
  timer,
} from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { batch } from '../../operators/index.js';

/** What others get wrong when they gather items, shown on them where they are at hand, and that it is right here. */
describe('traps of batching by time and size', () => {
  /** A consumer that sends one more item into the source while it is handed the first batch. */
  function reentrant(gather: (source: Subject<string>) => Observable<string[]>): string[] {
    return virtualTime(({ flush }) => {
      const source = new Subject<string>();
      const seen: string[] = [];
      gather(source).subscribe((items) => {
        if (seen.length === 0) source.next('fed');
        seen.push(...items);
      });
      source.next('a');
      source.next('b');
      flush();
      source.complete();
      return seen;
    });
  }

  it('loses no item that comes while a batch is handed out (bufferTime does)', () => {
    expect(reentrant((source) => source.pipe(bufferTime(10, null, 2), take(3)))).not.toContain('fed');
    expect(reentrant((source) => source.pipe(batch({ maxSize: 2, maxWaitMs: 10 })))).toEqual(['a', 'b', 'fed']);
  });

  it('has no gap between two batches (bufferTime with a creation interval has)', () => {
    const items = (gather: (source: Observable<number>) => Observable<number[]>): number[] =>
      virtualTime(({ flush }) => {
        const seen: number[] = [];
        gather(timer(0, 1).pipe(take(20))).subscribe((some) => seen.push(...some));
        flush();
        return seen;
      });
    expect(items((source) => source.pipe(bufferTime(5, 10))).length).toBeLessThan(20);
    expect(items((source) => source.pipe(batch({ maxSize: 100, maxWaitMs: 5 })))).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  it('emits no empty batch, and has no timer while nothing waits (bufferTime ticks on)', () => {
    const { theirs, ours, timers } = virtualTime(({ flush, scheduler }) => {
      const empty: unknown[][] = [[], []];
      NEVER.pipe(bufferTime(10), take(5)).subscribe((items) => empty[0]?.push(items));
      NEVER.pipe(batch({ maxWaitMs: 10 })).subscribe((items) => empty[1]?.push(items));
      flush();
      return { theirs: empty[0], ours: empty[1], timers: scheduler.actions.length };
    });
    expect(theirs).toEqual([[], [], [], [], []]);
    expect(ours).toEqual([]);
    expect(timers).toBe(0);
  });

  it('counts the wait from the first item (bufferTime from whenever its window began)', () => {
    const waits = (gather: (source: Observable<number>) => Observable<number[]>): number[] =>
      virtualTime(({ flush, scheduler }) => {
        const at: number[] = [];
        gather(concat(timer(9), NEVER)).subscribe((items) => {
          if (items.length > 0) at.push(scheduler.now());
        });
        flush();
        return at;
      });
    expect(waits((source) => source.pipe(bufferTime(10), take(3)))).toEqual([10]);
    expect(waits((source) => source.pipe(batch({ maxWaitMs: 10 }), take(1)))).toEqual([19]);
  });

  it('keeps what waits when the source fails (bufferTime drops it)', () => {
    const seen = (gather: (source: Observable<string>) => Observable<string[]>): unknown[] => {
      const out: unknown[] = [];
      gather(from(['a', 'b', 'bad']).pipe(concatMap((item) => (item === 'bad' ? throwError(() => new Error(item)) : of(item))))).subscribe({
        next: (items) => out.push(items),
        error: (error: unknown) => out.push((error as Error).message),
      });
      return out;
    };
    expect(seen((source) => source.pipe(bufferTime(10)))).toEqual(['bad']);
    expect(seen((source) => source.pipe(batch({ maxWaitMs: 10 })))).toEqual([['a', 'b'], 'bad']);
  });

  it('waits for ever when told to (bufferTime(Infinity) fires every millisecond on a real clock)', () => {
    vi.useFakeTimers();
    const seen: [number, number] = [0, 0];
    const source = new Subject<number>();
    const theirs = source.pipe(bufferTime(Infinity, null, Infinity, asyncScheduler)).subscribe(() => seen[0]++);
    const ours = source.pipe(batch({ maxWaitMs: Infinity })).subscribe(() => seen[1]++);
    const long = source.pipe(batch({ maxWaitMs: 2 ** 33 })).subscribe(() => seen[1]++);
    source.next(1);
    vi.advanceTimersByTime(60);
    expect(seen[0]).toBeGreaterThan(10);
    expect(seen[1]).toBe(0);
    for (const subscription of [theirs, ours, long]) subscription.unsubscribe();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  it('does not start the wait anew with every item (a batcher that does sends nothing while items keep coming)', () => {
    const firstAt = virtualTime(({ flush, scheduler }) => {
      const at: number[] = [];
      timer(0, 15)
        .pipe(take(12), batch({ maxSize: 100, maxWaitMs: 30 }))
        .subscribe(() => at.push(scheduler.now()));
      flush();
      return at[0];
    });
    expect(firstAt).toBe(30);
  });

  it('sends twenty when twenty is the most, and the item that does not fit starts the next', () => {
    const sizes: number[] = [];
    from(Array.from({ length: 45 }, (_, i) => i))
      .pipe(batch({ maxSize: 20 }))
      .subscribe((items) => sizes.push(items.length));
    expect(sizes).toEqual([20, 20, 5]);
    const weights: number[][] = [];
    of(8000, 192, 1, 9000, 5)
      .pipe(batch({ maxWeight: 8192, weigh: (tokens: number) => tokens }))
      .subscribe((items) => weights.push(items));
    expect(weights).toEqual([[8000, 192], [1], [9000], [5]]);
  });

  it('caps a batch that is closed by a signal as well (buffer emits all there is)', () => {
    const close = new Subject<void>();
    const source = new Subject<number>();
    const theirs: number[] = [];
    const ours: number[] = [];
    source.pipe(buffer(close)).subscribe((items) => theirs.push(items.length));
    source.pipe(batch({ maxSize: 3, maxWaitMs: Infinity, flush: close })).subscribe((items) => ours.push(items.length));
    for (let i = 0; i < 7; i++) source.next(i);
    close.next();
    expect(theirs).toEqual([7]);
    expect(ours).toEqual([3, 3, 1]);
  });

  it('takes an item of the frame in which its time runs out, as RxJS does', () => {
    const gathered = (gather: OperatorFunction<string, string[]>): string[] =>
      virtualTime(({ flush }) => {
        const seen: string[] = [];
        const source = merge(timer(100).pipe(map(() => 'e')), from('abcd'), timer(130).pipe(ignoreElements()));
        source.pipe(gather, take(1)).subscribe((items) => seen.push(items.join('')));
        flush();
        return seen;
      });
    expect(gathered(batch({ maxSize: 100, maxWaitMs: 100 }))).toEqual(['abcde']);
    expect(gathered(bufferTime(100))).toEqual(['abcd']);
  });
});
