import { NEVER, Observable, of, Subject, takeWhile, throwError, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { CallContext, Settled, Verdict } from '../../operators/index.js';
import {
  batchMap,
  batchMapFrom,
  classifyError,
  createBatcher,
  createLimiter,
  divideAndConquer,
  fixed,
  lanes,
  natural,
  robust,
} from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';

/** Found by the simulation, each reduced to the least that shows it. */
describe('batchMap, once broken', () => {
  it('takes an attempt that timed out for timed out, whatever the work says when its signal aborts', () => {
    const scheduler = new VirtualTimeScheduler();
    const classes: unknown[] = [];
    const settled: Settled<string, string>[] = [];
    const outcomes: string[] = [];
    const work = (_items: readonly string[], { signal }: CallContext): Observable<string[]> =>
      new Observable((subscriber) => {
        signal.addEventListener('abort', () => {
          subscriber.error(new Error('aborted in the middle'));
        });
      });
    of('a', 'b')
      .pipe(
        batchMap(work, {
          scheduler,
          timeoutMs: 50,
          repair: divideAndConquer(),
          classify: (error): Verdict => {
            classes.push((error as { code?: string }).code);
            return { class: 'fatal' };
          },
          onEvent: (event) => {
            if (event.type === 'attemptEnded') outcomes.push(event.outcome);
          },
        }),
      )
      .subscribe((result) => settled.push(result));
    scheduler.flush();
    expect(classes).toEqual(['FLOW_ATTEMPT_TIMEOUT']);
    expect(settled.map((result) => (result as { reason?: { code?: string } }).reason?.code)).toEqual([
      'FLOW_ATTEMPT_TIMEOUT',
      'FLOW_ATTEMPT_TIMEOUT',
    ]);
    expect(outcomes).toHaveLength(1);
  });

  it('ends a call whose callers have all left once, even when the work errors because of it', () => {
    const scheduler = new VirtualTimeScheduler();
    const ended: string[] = [];
    const work = (_items: readonly string[], { signal }: CallContext): Observable<string[]> =>
      new Observable((subscriber) => {
        signal.addEventListener('abort', () => {
          subscriber.error(new Error('aborted in the middle'));
        });
      });
    const batcher = createBatcher(work, {
      scheduler: atOnce(scheduler),
      classify: classifyError,
      repair: robust(),
      maxSize: 1,
      onEvent: (event) => {
        if (event.type === 'attemptEnded') ended.push(event.outcome);
      },
    });
    const load = batcher.load('a').subscribe();
    load.unsubscribe();
    expect(ended).toEqual(['cancelled']);
  });

  it('settles a load when the listener of its overflow closes the batcher', () => {
    const scheduler = new VirtualTimeScheduler();
    const seen: string[] = [];
    const batcher = createBatcher((items: readonly string[]) => of(items.map((item) => item.toUpperCase())), {
      scheduler,
      maxQueued: 1,
      overflow: 'dropOldest',
      window: fixed(100),
    });
    const listen = (name: string, then?: () => void): void => {
      batcher.load(name).subscribe({
        next: (value) => seen.push(`${name}: ${value}`),
        error: (error: unknown) => {
          seen.push(`${name}: ${String((error as { code?: string }).code)}`);
          then?.();
        },
      });
    };
    listen('a', () => {
      batcher.close();
    });
    listen('b');
    scheduler.flush();
    expect(seen).toEqual(['a: FLOW_OVERFLOW', 'b: FLOW_CLOSED']);
  });

  it('keeps the order and the bound when the caller of a dropped item comes back at once', () => {
    const scheduler = new VirtualTimeScheduler();
    const calls: (readonly string[])[] = [];
    const source = new Subject<string>();
    let again = true;
    source
      .pipe(
        batchMap(
          (items: readonly string[]) => {
            calls.push(items);
            return of(items);
          },
          { scheduler, maxQueued: 2, overflow: 'dropOldest', window: fixed(100) },
        ),
      )
      .subscribe((result) => {
        if (result.status === 'fulfilled' || !again) return;
        again = false;
        source.next('a again');
      });
    for (const item of ['a', 'b', 'c']) source.next(item);
    source.complete();
    scheduler.flush();
    // c makes a leave, a comes back behind c and makes b leave.
    expect(calls).toEqual([['c', 'a again']]);
  });

  it('has room for what it pulled, though work came back in the meantime', async () => {
    const codes: unknown[] = [];
    let give = (): void => undefined;
    const pulls = ['a', 'b', 'c'];
    const input: AsyncIterable<string> = {
      [Symbol.asyncIterator]: () => ({
        next: () => {
          const value = pulls.shift();
          if (value !== undefined) return Promise.resolve({ done: false, value });
          return new Promise((resolve) => {
            give = () => {
              resolve({ done: false, value: 'd' });
            };
          });
        },
      }),
    };
    const running: Subject<readonly string[]>[] = [];
    const subscription = batchMapFrom(
      input,
      () => {
        const call = new Subject<readonly string[]>();
        running.push(call);
        return call;
      },
      { maxQueued: 2, maxSize: 2, concurrency: 1, window: fixed(1000), classify: () => ({ class: 'itemFault' }), repair: robust() },
    ).subscribe((result) => codes.push(result.status === 'rejected' && (result.reason as { code?: string }).code));
    await new Promise((resolve) => setTimeout(resolve));
    // a and b are under way, c waits, d is being read: then a and b come back as two parts, and the queue is full.
    running[0]?.error(new Error('one of them is bad'));
    give();
    await new Promise((resolve) => setTimeout(resolve));
    subscription.unsubscribe();
    expect(running).toHaveLength(2);
    expect(codes).toEqual([]);
  });

  it('hands out what it rejects before it pulls on', () => {
    const scheduler = new VirtualTimeScheduler();
    let pulled = 0;
    function* numbers(): Generator<number> {
      for (; pulled < 10_000; pulled++) yield pulled;
    }
    batchMapFrom(numbers(), () => NEVER, {
      scheduler,
      weigh: (n) => (n < 5 ? 1 : 2),
      maxWeight: 1,
      oversize: 'reject',
      maxQueued: 5,
      concurrency: 1,
      timeoutMs: Infinity,
    })
      .pipe(takeWhile((result) => result.status === 'fulfilled'))
      .subscribe();
    scheduler.flush();
    expect(pulled).toBeLessThan(20);
  });

  it('without lanes of its own stands in the last lane of a limiter that has some', () => {
    const scheduler = new VirtualTimeScheduler();
    const limiter = createLimiter({ scheduler, queue: lanes([{ name: 'fast' }, { name: 'slow' }]) });
    const values: unknown[] = [];
    of('a')
      .pipe(batchMap((items: readonly string[]) => of(items), { scheduler, limiter }))
      .subscribe((result) => values.push(result.status));
    scheduler.flush();
    expect(values).toEqual(['fulfilled']);
  });

  it('does not drop from other lanes what cannot make room in a full lane', () => {
    const scheduler = new VirtualTimeScheduler();
    const dropped: string[] = [];
    const source = new Subject<string>();
    source
      .pipe(
        batchMap((items: readonly string[]) => of(items), {
          scheduler,
          queue: lanes([{ name: 'p0', maxQueued: 1, overflow: 'dropLowest' }, { name: 'p1' }], { by: (item: string) => item.slice(0, 2) }),
          window: fixed(100),
        }),
      )
      .subscribe((result) => {
        if (result.status === 'rejected') dropped.push(result.input);
      });
    for (const item of ['p1 a', 'p1 b', 'p0 a', 'p0 b']) source.next(item);
    source.complete();
    scheduler.flush();
    expect(dropped).toEqual(['p0 b']);
  });

  it('sends one item for equal loads, though one of them comes while the other is being accepted', () => {
    const scheduler = new VirtualTimeScheduler();
    const sent: string[] = [];
    const batcher = createBatcher(
      (items: readonly string[]) => {
        sent.push(...items);
        return of(items);
      },
      { scheduler, dedupe: (item) => item, maxQueued: 1, overflow: 'dropOldest', window: fixed(100) },
    );
    const loadB = (): void => {
      batcher.load('b').subscribe();
    };
    batcher.load('a').subscribe({ error: loadB });
    loadB();
    scheduler.flush();
    expect(sent).toEqual(['b']);
  });

  it('leaves a call its caller gives up while it is being made', () => {
    const scheduler = new VirtualTimeScheduler();
    const controller = new AbortController();
    let calls = 0;
    const batcher = createBatcher(
      () => {
        calls++;
        controller.abort();
        return throwError(() => new Error('busy'));
      },
      { scheduler: atOnce(scheduler), maxSize: 1, window: natural(), classify: () => ({ class: 'transient' }), repair: robust() },
    );
    batcher.load('a', { signal: controller.signal }).subscribe({ error: () => undefined });
    scheduler.flush();
    expect(calls).toBe(1);
  });

  it('checks every concurrency an Observable gives, and says where it comes from', () => {
    const scheduler = new VirtualTimeScheduler();
    const concurrency = new Subject<number>();
    const errors: unknown[] = [];
    const batcher = createBatcher((items: readonly string[]) => of(items), { scheduler, concurrency });
    batcher.load('a').subscribe({ error: (error: unknown) => errors.push(error) });
    concurrency.next(0);
    expect(errors).toMatchObject([{ code: 'FLOW_CONFIG_INVALID', operator: 'createBatcher' }]);
  });

  it('ends with the fault of its window, though another lane does not wait for a window', () => {
    const scheduler = new VirtualTimeScheduler();
    const options = {
      scheduler,
      queue: lanes([{ name: 'urgent', maxWaitMs: 0 }, { name: 'rest' }], { by: (item: string) => (item === 'a' ? 'urgent' : 'rest') }),
      window: (): number => {
        throw new Error('no rule');
      },
    };
    const seen: string[] = [];
    const batcher = createBatcher((items: readonly string[]) => of(items), options);
    const code = (error: unknown): string => String((error as { code?: string }).code);
    for (const item of ['a', 'b']) batcher.load(item).subscribe({ error: (error: unknown) => seen.push(`${item}: ${code(error)}`) });
    const source = new Subject<string>();
    source
      .pipe(batchMap((items: readonly string[]) => of(items), options))
      .subscribe({ error: (error: unknown) => seen.push(`stream: ${code(error)}`) });
    source.next('a');
    source.next('b');
    scheduler.flush();
    expect(seen.sort()).toEqual(['a: FLOW_CALLBACK', 'b: FLOW_CALLBACK', 'stream: FLOW_CALLBACK']);
  });
});
