import type { Observable, SchedulerLike } from 'rxjs';
import {
  buffer,
  bufferTime,
  bufferWhen,
  concat,
  debounceTime,
  defer,
  finalize,
  groupBy,
  map,
  mergeMap,
  NEVER,
  of,
  range,
  Subject,
  share,
  take,
  throwError,
  timer,
} from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { batch, bulkheadMap, createBatcher } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { elementsMoved, numbers, turns } from './tools.js';

/** Traps of RxJS that the parity tests and the tests of the operators do not show already. */
describe('one failure among many calls', () => {
  function failing(call: (work: (item: number) => Observable<number>) => Observable<unknown>): {
    started: number;
    left: number;
    ends: string;
  } {
    return virtualTime(({ flush }) => {
      const seen = { started: 0, left: 0, ends: '' };
      const fault = new Error('the second');
      call((item) =>
        defer(() => {
          seen.started++;
          return timer(item === 1 ? 5 : 10).pipe(map(() => (item === 1 ? throwError(() => fault) : of(item))));
        }).pipe(
          mergeMap((answer) => answer),
          finalize(() => seen.left++),
        ),
      ).subscribe({ complete: () => (seen.ends = 'complete'), error: () => (seen.ends = 'error') });
      flush();
      return seen;
    });
  }

  it('ends all others and the whole queue in mergeMap; here the others go on', () => {
    expect(failing((work) => range(0, 6).pipe(mergeMap(work, 2)))).toEqual({ started: 2, left: 2, ends: 'error' });
    expect(failing((work) => range(0, 6).pipe(bulkheadMap(work, { concurrency: 2 })))).toEqual({ started: 6, left: 6, ends: 'complete' });
  });
});

describe('a queue of waiting items', () => {
  const drain = (queue: (gate: Subject<number>) => Observable<unknown>): number => {
    const gate = new Subject<number>();
    queue(gate).subscribe();
    return elementsMoved(() => {
      gate.complete();
    });
  };

  it('moves every item for each one that leaves, kept in an array as in mergeMap; here none is moved', () => {
    // 400 synchronous streams: few enough for mergeMap not to run out of stack.
    const theirs = drain((gate) => range(0, 401).pipe(mergeMap((item) => (item === 0 ? gate : of(item)), 1)));
    const ours = drain((gate) => range(0, 401).pipe(bulkheadMap((item) => (item === 0 ? gate : of(item)), { concurrency: 1 })));
    expect(theirs).toBeGreaterThan((400 * 400) / 2);
    expect(ours).toBeLessThan(401);
  });
});

describe('keys that come and go', () => {
  it('stay open for ever in groupBy; here an idle key is forgotten and its place is free', () => {
    let open = 0;
    const source = new Subject<number>();
    source
      .pipe(
        groupBy((user) => user),
        mergeMap((group) => {
          open++;
          return group.pipe(finalize(() => open--));
        }),
      )
      .subscribe();
    const refused: string[] = [];
    const keyed = source.pipe(bulkheadMap((user) => of(user), { key: (user) => user, perKey: 1, maxKeys: 1 }));
    keyed.subscribe(({ status }) => refused.push(status));
    for (const user of numbers(1000)) source.next(user);
    expect(open).toBe(1000);
    expect(refused).toEqual(numbers(1000).map(() => 'fulfilled'));
  });
});

describe('gathering', () => {
  const sentAt = (gather: (source: Observable<number>, scheduler: SchedulerLike) => Observable<number[]>): number[] =>
    virtualTime(({ flush, now, scheduler }) => {
      const at: number[] = [];
      gather(timer(0, 15).pipe(take(12), share()), scheduler).subscribe(() => at.push(now()));
      flush();
      return at;
    });

  it('until nothing came for a while sends nothing while items keep coming; here the first item starts the wait', () => {
    expect(sentAt((source, scheduler) => source.pipe(buffer(source.pipe(debounceTime(30, scheduler))))).at(0)).toBe(165);
    expect(sentAt((source) => source.pipe(batch({ maxSize: 100, maxWaitMs: 30 }))).at(0)).toBe(30);
  });

  it('takes a timer for each batch in bufferTime; here one serves them all', () => {
    const timers = (gather: (source: Observable<number>, scheduler: CountingScheduler) => Observable<number[]>): number => {
      const scheduler = new CountingScheduler();
      const subscription = gather(concat(range(0, 10_000), NEVER), scheduler).subscribe();
      subscription.unsubscribe();
      return scheduler.delays.length;
    };
    expect(timers((source, scheduler) => source.pipe(bufferTime(1000, null, 100, scheduler)))).toBeGreaterThan(100);
    expect(timers((source, scheduler) => source.pipe(batch({ maxSize: 100, maxWaitMs: 1000, scheduler })))).toBeLessThanOrEqual(1);
  });

  it('by the turn with bufferWhen and a promise never lets the turn end; here a burst is one call and the turn ends', async () => {
    let closings = 0;
    let ended = false;
    setImmediate(() => (ended = true));
    const burst = new Subject<number>();
    // Without a bound it would never give the event loop back: this one stops after 5,000 turns of the promise queue.
    const spinning = burst.pipe(bufferWhen(() => (closings++ < 5000 ? defer(() => Promise.resolve()) : NEVER))).subscribe();
    await turns(20_000);
    expect([closings, ended]).toEqual([5001, false]);
    spinning.unsubscribe();

    const calls: number[] = [];
    const batcher = createBatcher((items: readonly number[]) => {
      calls.push(items.length);
      return of(items);
    });
    await Promise.all(numbers(10).map((item) => batcher.loadAsync(item)));
    expect(calls).toEqual([10]);
    expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  });
});
