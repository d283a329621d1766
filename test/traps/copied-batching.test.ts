import type { Observable, SchedulerLike } from 'rxjs';
import {
  buffer,
  catchError,
  concatMap,
  defer,
  filter,
  finalize,
  from,
  map,
  merge,
  mergeMap,
  of,
  queueScheduler,
  Subject,
  scan,
  take,
  throwError,
  timer,
} from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Limiter } from '../../operators/index.js';
import {
  batch,
  batchMap,
  batchMapFrom,
  classifyError,
  createLimiter,
  inputOrder,
  mergeLanes,
  perMinute,
  robust,
} from '../../operators/index.js';
import { numbers } from './tools.js';

const repaired = { classify: classifyError, repair: robust() };

// Recipes for batches out of RxJS operators, done as their text says. What else goes wrong with them is in the tests of the operators.

describe('an urgent item that leaves at once and takes others along', () => {
  /** Sends at each urgent item what is there, up to four. */
  function flushAtOnce(items: readonly string[]): string[][] {
    const [low, sent]: [string[], string[][]] = [[], []];
    for (const item of items) {
      if (item.startsWith('L')) low.push(item);
      else sent.push([item, ...low.splice(0, 3)]);
    }
    return sent;
  }
  const burst = ['L1', 'L2', 'H1', 'H2'];

  it('tears a burst apart, though the drawing shows one batch; here the burst is one batch', () => {
    expect(flushAtOnce(burst)).toEqual([['H1', 'L1', 'L2'], ['H2']]);
    virtualTime(({ flush }) => {
      const sent: string[][] = [];
      const [high, low] = [new Subject<string>(), new Subject<string>()];
      mergeLanes(
        [
          { name: 'high', source: high },
          { name: 'low', source: low },
        ],
        { maxSize: 4 },
      ).subscribe(({ items }) => sent.push(items));
      for (const item of burst) (item.startsWith('H') ? high : low).next(item);
      flush();
      expect(sent).toEqual([['H1', 'H2', 'L1', 'L2']]);
    });
  });

  it('comes after what was there before it in a buffer that it closes, however much that is; here first, in a batch with a bound', () => {
    const [high, low, ours] = [new Subject<string>(), new Subject<string>(), [] as string[][]];
    const theirs: string[][] = [];
    merge(low, high)
      .pipe(buffer(high))
      .subscribe((items) => theirs.push(items));
    mergeLanes(
      [
        { name: 'high', source: high },
        { name: 'low', source: low },
      ],
      { maxSize: 4, scheduler: queueScheduler },
    ).subscribe(({ items }) => ours.push(items));
    // Three wait; one more would be a batch.
    for (const item of ['L1', 'L2', 'L3']) low.next(item);
    high.next('H');
    for (const item of numbers(3).map((i) => `M${i}`)) low.next(item);
    expect(theirs[0]?.[0]).toBe('L1');
    expect(ours[0]).toEqual(['H', 'L1', 'L2', 'L3']);
  });
});

describe('twenty items, 8192 tokens or 100 ms, gathered in a scan', () => {
  interface Gathered {
    readonly open: readonly number[];
    readonly full: readonly number[] | undefined;
  }
  const sum = (weights: readonly number[]): number => weights.reduce((total, weight) => total + weight, 0);

  /** Tests before it adds: "would it be too heavy" and "would it be the twentieth". */
  const recipe = (source: Observable<number>): Observable<readonly number[]> =>
    source.pipe(
      scan(
        ({ open }: Gathered, weight): Gathered =>
          sum(open) + weight > 8192 || open.length + 1 >= 20
            ? { open: [weight], full: open }
            : { open: [...open, weight], full: undefined },
        { open: [], full: undefined },
      ),
      map(({ full }) => full),
      filter((full) => full !== undefined),
    );

  function sent(gather: (source: Observable<number>) => Observable<readonly number[]>, ...weights: number[]): string[] {
    return virtualTime(({ advance, now }) => {
      const log: string[] = [];
      const source = new Subject<number>();
      const subscription = gather(source).subscribe((items) => log.push(`${items.length} items of ${sum(items)} at ${now()}`));
      for (const weight of weights) source.next(weight);
      advance(1000);
      subscription.unsubscribe();
      return log;
    });
  }
  const ours = (source: Observable<number>): Observable<readonly number[]> =>
    source.pipe(batch({ maxSize: 20, maxWeight: 8192, maxWaitMs: 100, weigh: (weight: number) => weight }));
  const ones = (count: number): number[] => numbers(count).map(() => 1);

  it('sends nineteen; here twenty', () => {
    expect(sent(recipe, ...ones(40))).toEqual(['19 items of 19 at 0', '19 items of 19 at 0']);
    expect(sent(ours, ...ones(40))).toEqual(['20 items of 20 at 0', '20 items of 20 at 0']);
  });

  it('cannot send when the time is up: the last wait for ever; here they wait 100 ms', () => {
    expect(sent(recipe, 1, 2, 3)).toEqual([]);
    expect(sent(ours, 1, 2, 3)).toEqual(['3 items of 6 at 100']);
  });

  it('holds a batch that is exactly full; here it goes at once, and the next has its own 100 ms', () => {
    expect(sent(recipe, 8000, 192)).toEqual([]);
    expect(sent(ours, 8000, 192, 1)).toEqual(['2 items of 8192 at 0', '1 items of 1 at 100']);
  });

  it('makes an empty batch of an item above the limit; here it goes alone', () => {
    expect(sent(recipe, 9000)).toEqual(['0 items of 0 at 0']);
    expect(sent(ours, 9000)).toEqual(['1 items of 9000 at 0']);
  });
});

describe('halves of a batch that was refused', () => {
  /** Halves whatever failed, down to single items. */
  function halving<T>(call: (items: readonly T[]) => Observable<readonly T[]>, items: readonly T[]): Observable<T> {
    return call(items).pipe(
      concatMap((answers) => answers),
      catchError(() => {
        const half = Math.ceil(items.length / 2);
        return items.length === 1
          ? from([] as T[])
          : from([items.slice(0, half), items.slice(half)]).pipe(mergeMap((part) => halving(call, part)));
      }),
    );
  }

  it('cost 2n - 1 calls when the key is wrong; here one', () => {
    for (const fault of [{ status: 401 }, { status: 400, code: 'model_not_found' }]) {
      let calls = 0;
      const call = (): Observable<never> =>
        defer(() => {
          calls++;
          return throwError(() => Object.assign(new Error('refused'), fault));
        });
      halving(call, numbers(16)).subscribe();
      expect(calls).toBe(31);
      calls = 0;
      const statuses: string[] = [];
      virtualTime(({ flush }) => {
        batchMapFrom(numbers(16), call, repaired).subscribe(({ status }) => statuses.push(status));
        from(numbers(16))
          .pipe(batchMap(call, repaired))
          .subscribe(({ status }) => statuses.push(status));
        flush();
      });
      expect(calls).toBe(2);
      expect(statuses).toEqual(numbers(32).map(() => 'rejected'));
    }
  });

  it('answer in any order, and say nothing of what failed; here each answer has its place', () => {
    const wrong = Object.assign(new Error('forbidden word'), { status: 400 });
    const call = (items: readonly number[]): Observable<readonly number[]> =>
      timer(items.length < 3 ? items[0]! % 5 : 10).pipe(
        map(() => {
          if (items.includes(6)) throw wrong;
          return items;
        }),
      );
    virtualTime(({ flush }) => {
      const theirs: number[] = [];
      halving(call, numbers(10)).subscribe((answer) => theirs.push(answer));
      const ours: unknown[] = [];
      batchMapFrom(numbers(10), call, { ...repaired, order: inputOrder() }).subscribe((one) =>
        ours.push(one.status === 'fulfilled' ? one.value : one.reason),
      );
      flush();
      expect(theirs).toHaveLength(9);
      expect(theirs).not.toEqual([...theirs].sort((a, b) => a - b));
      expect(ours).toEqual(numbers(10).map((i) => (i === 6 ? wrong : i)));
    });
  });
});

describe('a window that follows the calls in flight', () => {
  interface Setting {
    readonly source: Observable<number>;
    readonly limiter: Limiter;
    readonly scheduler: SchedulerLike;
    readonly call: (size: number) => void;
  }

  /** Twelve items a second for ten seconds, where nine calls a second are allowed. What waits when the last has come? */
  function backlog(run: (setting: Setting) => Observable<unknown>): number {
    return virtualTime(({ advance, scheduler }) => {
      let sent = 0;
      const limiter = createLimiter({ rates: [perMinute('requests', 600, { burst: 9 })], scheduler });
      const source = timer(0, 83, scheduler).pipe(take(120));
      run({ source, limiter, scheduler, call: (size) => (sent += size) }).subscribe();
      advance(83 * 120);
      const left = 120 - sent;
      advance(20_000);
      expect(sent).toBe(120);
      return left;
    });
  }

  it('and is decided at the first item stays closed when the rate is short, and the line grows; here it opens while it waits', () => {
    const theirs = backlog(({ source, limiter, scheduler, call }) => {
      let inFlight = 0;
      const open: number[] = [];
      return source.pipe(
        filter((item) => open.push(item) === 1),
        // No call takes long, so there never is one in flight.
        mergeMap(() => timer(inFlight * 50, scheduler)),
        map(() => open.splice(0).length),
        mergeMap((size) =>
          limiter.run(() => {
            inFlight++;
            call(size);
            return of(size).pipe(finalize(() => inFlight--));
          }),
        ),
      );
    });
    const ours = backlog(({ source, limiter, scheduler, call }) => {
      const work = (items: readonly number[]): Observable<readonly number[]> => {
        call(items.length);
        return of(items);
      };
      return source.pipe(batchMap(work, { limiter, scheduler }));
    });
    expect(theirs).toBeGreaterThan(15);
    expect(ours).toBeLessThan(3);
  });
});

describe('a call whose caller has left', () => {
  it('is only silenced when its stream is left; here its signal aborts, and the server can stop', () => {
    virtualTime(({ advance }) => {
      const log: string[] = [];
      // A promise in the middle: unsubscribing from the stream does not reach the call.
      const request = (signal?: AbortSignal): Promise<readonly string[]> => {
        signal?.addEventListener('abort', () => log.push('stopped'));
        return new Promise(() => undefined);
      };
      const theirs = of(['a'])
        .pipe(mergeMap(() => request()))
        .subscribe();
      advance(5);
      theirs.unsubscribe();
      expect(log).toEqual([]);
      const ours = of('a')
        .pipe(batchMap((_items: readonly string[], { signal }) => request(signal)))
        .subscribe();
      advance(5);
      ours.unsubscribe();
      expect(log).toEqual(['stopped']);
    });
  });
});
