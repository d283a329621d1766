import DataLoader from 'dataloader';
import PQueue from 'p-queue';
import {
  catchError,
  concat,
  defer,
  delay,
  expand,
  forkJoin,
  from,
  map,
  NEVER,
  of,
  Subject,
  switchMap,
  take,
  throwError,
  timer,
} from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { batchMap, classifyError, createBatcher, createLimiter, divideAndConquer, lanes, natural, robust } from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';

const repaired = { classify: classifyError, repair: robust() };

const badRequest = Object.assign(new Error('bad request'), { status: 400 });

/** What others get wrong when batches are calls, shown on them where they are at hand, and that it is right here. */
describe('traps of batching calls', () => {
  it('remembers nothing after the answer (DataLoader keeps every result until told otherwise)', async () => {
    let calls = 0;
    const load = (keys: readonly string[]): Promise<string[]> => {
      calls++;
      return Promise.resolve([...keys]);
    };
    const theirs = new DataLoader<string, string>((keys) => load(keys));
    await theirs.load('a');
    await theirs.load('a');
    expect(calls).toBe(1);
    calls = 0;
    const ours = createBatcher(load, { dedupe: (key) => key });
    await ours.loadAsync('a');
    await ours.loadAsync('a');
    expect(calls).toBe(2);
  });

  it('bounds calls and time, and lets a load be left (DataLoader does none of it)', async () => {
    let running = 0;
    let most = 0;
    const work = (keys: readonly number[]): Promise<number[]> => {
      most = Math.max(most, ++running);
      return new Promise((resolve) => {
        setImmediate(() => {
          running--;
          resolve([...keys]);
        });
      });
    };
    const theirs = new DataLoader<number, number>((keys) => work(keys), { maxBatchSize: 1 });
    await Promise.all(Array.from({ length: 20 }, (_, i) => theirs.load(i)));
    expect(most).toBe(20);
    most = 0;
    const ours = createBatcher(work, { maxSize: 1, concurrency: 2 });
    await Promise.all(Array.from({ length: 20 }, (_, i) => ours.loadAsync(i)));
    expect(most).toBe(2);
    const stuck = createBatcher(() => NEVER, { timeoutMs: 1, classify: classifyError, repair: divideAndConquer() });
    await expect(stuck.loadAsync('a')).rejects.toMatchObject({ code: 'FLOW_ATTEMPT_TIMEOUT' });
  });

  it('rejects with its own error a batch that was answered wrongly, once, and goes on with the next', async () => {
    const short = (keys: readonly string[]): Promise<string[]> => Promise.resolve(keys.includes('bad') ? [] : [...keys]);
    const ours = createBatcher(short, { maxSize: 1, ...repaired });
    const [bad, good] = await Promise.allSettled([ours.loadAsync('bad'), ours.loadAsync('good')]);
    expect(bad).toMatchObject({ status: 'rejected', reason: { code: 'FLOW_BATCH_SHAPE' } });
    expect(good).toEqual({ status: 'fulfilled', value: 'good' });
  });

  it('loses nothing that a consumer sends in while it is handed a result', () => {
    const seen = virtualTime(({ flush }) => {
      const source = new Subject<number>();
      const out: number[] = [];
      source
        .pipe(
          batchMap((items: readonly number[]) => of(items), { maxSize: 2 }),
          take(1000),
        )
        .subscribe(({ input }) => {
          out.push(input);
          if (input < 500) source.next(input + 2);
        });
      source.next(0);
      source.next(1);
      flush();
      return out;
    });
    expect(seen).toEqual(Array.from({ length: 502 }, (_, i) => i));
  });

  it('goes on when a callback throws, when a member leaves, and when the answer comes after it left', async () => {
    const weigh = (item: string): number => {
      if (item === 'bad') throw new Error('weigh');
      return 1;
    };
    const batcher = createBatcher((items: readonly string[]) => Promise.resolve([...items]), { weigh, scheduler: atOnce() });
    await expect(batcher.loadAsync('bad')).rejects.toMatchObject({ code: 'FLOW_CALLBACK', callback: 'weigh' });
    const leaving = new AbortController();
    const left = batcher.loadAsync('left', { signal: leaving.signal });
    leaving.abort();
    await expect(left).rejects.toMatchObject({ name: 'AbortError' });
    await expect(batcher.loadAsync('good')).resolves.toBe('good');
    await batcher.drain();
  });

  it('never drops what has been accepted for what comes later, unless told to', () => {
    const { settled, calls } = virtualTime(({ flush }) => {
      const out: string[] = [];
      const sent: number[] = [];
      const queue = lanes([{ name: 'urgent' }, { name: 'later' }], { by: (item: number) => (item >= 100 ? 'urgent' : 'later') });
      const work = (items: readonly number[]) => {
        sent.push(...items);
        return of(items).pipe(delay(5));
      };
      from([1, 2, 3, 4, 100, 101])
        .pipe(batchMap(work, { maxSize: 1, concurrency: 1, maxQueued: 3, overflow: 'dropNewest', queue, scheduler: atOnce() }))
        .subscribe(({ input, status }) => out.push(`${String(input)} ${status}`));
      flush();
      return { settled: out, calls: sent };
    });
    expect(calls).toEqual([1, 2, 3, 4]);
    expect(settled.filter((one) => one.endsWith('rejected'))).toEqual(['100 rejected', '101 rejected']);
  });

  it('serves equals in the order they came, and the less urgent as well (strict priority starves them)', async () => {
    const order: number[] = [];
    const theirs = new PQueue({ concurrency: 1 });
    const late = theirs.add(async () => Promise.resolve(order.push(0)), { priority: 0 });
    void late;
    let served = 0;
    const urgent = async (): Promise<void> => {
      if (++served < 50) void theirs.add(urgent, { priority: 1 });
      order.push(1);
      await Promise.resolve();
    };
    void theirs.add(async () => Promise.resolve(order.push(2)), { priority: 0 });
    void theirs.add(urgent, { priority: 1 });
    await theirs.onIdle();
    expect(order.indexOf(2)).toBe(order.length - 1);

    const ours = virtualTime(({ flush }) => {
      const out: number[] = [];
      const source = new Subject<number>();
      let sent = 0;
      source
        .pipe(
          batchMap((items: readonly number[]) => of(items).pipe(delay(1)), {
            queue: lanes([{ name: 'urgent' }, { name: 'later' }], { by: (item: number) => (item === 1 ? 'urgent' : 'later') }),
            maxSize: 1,
            concurrency: 1,
            window: natural(),
          }),
          take(60),
        )
        .subscribe(({ input }) => {
          out.push(input);
          if (input === 1 && sent++ < 50) source.next(1);
        });
      for (const item of [1, 1, 2, 3]) source.next(item);
      flush();
      return out;
    });
    expect(ours.indexOf(2)).toBeLessThan(25);
    expect(ours.indexOf(3)).toBeGreaterThan(ours.indexOf(2));
  });
});

describe('traps of recipes for batches', () => {
  it('two urgent items of one instant travel together, though the first would leave at once', () => {
    const calls = virtualTime(({ flush }) => {
      const sent: string[] = [];
      const twoLanes = [
        { name: 'high', maxWaitMs: 0 },
        { name: 'low', maxWaitMs: 500 },
      ];
      concat(of('H1', 'H2', 'L1'), NEVER)
        .pipe(
          batchMap(
            (items: readonly string[]) => {
              sent.push(items.join(' '));
              return of(items);
            },
            { queue: lanes(twoLanes, { by: (item: string) => (item.startsWith('H') ? 'high' : 'low') }), maxSize: 3 },
          ),
        )
        .subscribe();
      flush();
      return sent;
    });
    expect(calls).toEqual(['H1 H2 L1']);
  });

  it('divides without losing a half (switchMap cancels the first as soon as the second starts)', () => {
    const call = (items: readonly number[]) =>
      timer(5).pipe(
        map(() => {
          if (items.includes(3)) throw badRequest;
          return items;
        }),
      );
    const recipe = (items: readonly number[]): ReturnType<typeof call> =>
      call(items).pipe(
        catchError(() =>
          items.length === 1 ? of([]) : from([items.slice(0, items.length / 2), items.slice(items.length / 2)]).pipe(switchMap(recipe)),
        ),
      );
    const { theirs, ours } = virtualTime(({ flush }) => {
      const seen: [number[], number[]] = [[], []];
      recipe([1, 2, 3, 4]).subscribe((items) => seen[0].push(...items));
      of(1, 2, 3, 4)
        .pipe(batchMap(call, repaired))
        .subscribe(({ status, input }) => {
          if (status === 'fulfilled') seen[1].push(input);
        });
      flush();
      return { theirs: seen[0], ours: seen[1] };
    });
    expect(theirs).not.toContain(1);
    expect(ours.sort()).toEqual([1, 2, 4]);
  });

  it('splits only what is the items’ fault, and within a budget (a recipe with expand repeats a wrong key for ever)', () => {
    const wrongKey = Object.assign(new Error('wrong key'), { status: 401 });
    let calls = 0;
    const call = () =>
      defer(() => {
        calls++;
        return throwError(() => wrongKey);
      });
    of('a')
      .pipe(
        expand(() => call().pipe(catchError(() => of('again')))),
        take(100),
      )
      .subscribe();
    expect(calls).toBeGreaterThanOrEqual(99);
    calls = 0;
    const reasons: unknown[] = [];
    virtualTime(({ flush }) => {
      of('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')
        .pipe(batchMap(call, repaired))
        .subscribe((settled) => settled.status === 'rejected' && reasons.push(settled.reason));
      flush();
    });
    expect(calls).toBe(1);
    expect(reasons).toEqual(Array.from({ length: 8 }, () => wrongKey));
  });

  it('does not let one failure cost the others their results (forkJoin does)', () => {
    const work = (item: string) => (item === 'bad' ? throwError(() => badRequest) : of(item));
    const theirs: unknown[] = [];
    forkJoin(['a', 'bad', 'c'].map(work)).subscribe({ next: (all) => theirs.push(...all), error: (error: unknown) => theirs.push(error) });
    expect(theirs).toEqual([badRequest]);
    const ours: unknown[] = [];
    virtualTime(({ flush }) => {
      of('a', 'bad', 'c')
        .pipe(batchMap((items: readonly string[]) => of(items.map((item) => (item === 'bad' ? badRequest : item))), repaired))
        .subscribe(({ input, status }) => ours.push(`${input} ${status}`));
      flush();
    });
    expect(ours).toEqual(['a fulfilled', 'bad rejected', 'c fulfilled']);
  });

  it('aborts running calls when the subscriber leaves', () => {
    const signals: AbortSignal[] = [];
    virtualTime(({ advance }) => {
      const subscription = of('a')
        .pipe(
          batchMap((_items: readonly string[], { signal }) => {
            signals.push(signal);
            return NEVER;
          }),
        )
        .subscribe();
      advance(5);
      subscription.unsubscribe();
    });
    expect(signals.map(({ aborted, reason }) => [aborted, (reason as Error).name])).toEqual([[true, 'AbortError']]);
  });

  it('asks a window of its own again while it waits, so that it does not stay small when the rate is short', () => {
    const asked = virtualTime(({ flush, scheduler, now }) => {
      const at: number[] = [];
      const limiter = createLimiter({ concurrency: 1, scheduler });
      const lease = limiter.tryAcquire();
      const window = (): number => {
        at.push(now());
        return 1000;
      };
      timer(0, 10)
        .pipe(
          take(3),
          batchMap((items: readonly number[]) => of(items), { limiter, window, scheduler: atOnce(scheduler) }),
        )
        .subscribe();
      timer(15).subscribe(() => lease?.release());
      flush();
      return [...new Set(at)];
    });
    expect(asked).toEqual(expect.arrayContaining([0, 10, 15, 20]));
  });
});
