import { BehaviorSubject, firstValueFrom, forkJoin, from, map, NEVER, Observable, timer, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { batchMap, classifyError, createBatcher, isFlowError, natural, retryFailed } from '../../operators/index.js';
import { unstamped } from '../support/events.js';

/** Answers after a moment of real time, so that no call ends inside the loop that started it. */
const tenfold = (items: readonly number[]): Observable<number[]> => timer(1).pipe(map(() => items.map((item) => 10 * item)));
const never = (): Observable<never> => NEVER;

const codeOf = (error: unknown): string => (isFlowError(error) ? error.code : String(error));
const soon = <R>(answer: Promise<R>): Promise<R | 'never'> =>
  Promise.race([answer, new Promise<'never'>((resolve) => setTimeout(resolve, 500, 'never'))]);

describe('a listener that makes the engine run while a call ends', () => {
  it.each(['attemptEnded', 'settled'] as const)('loses no result when the concurrency follows %s', async (type) => {
    const concurrency = new BehaviorSubject(2);
    const onEvent = (event: FlowEvent): void => {
      if (event.type === type) concurrency.next(concurrency.value + 1);
    };
    const results = await firstValueFrom(from([1, 2, 3]).pipe(batchMap(tenfold, { concurrency, onEvent: unstamped(onEvent) }), toArray()));
    expect(results.map((result) => result.status === 'fulfilled' && result.value)).toEqual([10, 20, 30]);
  });

  it.each(['drain', 'close'] as const)('hands out the answer that is there when it says %s', async (end) => {
    const batcher = createBatcher(tenfold, {
      onEvent: unstamped((event) => {
        if (event.type === 'attemptEnded') void batcher[end]();
      }),
    });
    expect(await soon(batcher.loadAsync(1).catch(codeOf))).toBe(10);
    expect(await soon(batcher.drain())).not.toBe('never');
  });

  it('sends nothing again after a close in the end of a call that could be tried again', async () => {
    let calls = 0;
    const batcher = createBatcher<number, number>(
      () =>
        timer(1).pipe(
          map(() => {
            calls++;
            throw Object.assign(new Error('busy'), { status: 503 });
          }),
        ),
      {
        onEvent: unstamped((event) => {
          if (event.type === 'attemptEnded') batcher.close();
        }),
        repair: retryFailed({ delayMs: 20, jitter: 'none' }),
        classify: classifyError,
      },
    );
    expect(await soon(batcher.loadAsync(1).catch(codeOf))).toBe('FLOW_CLOSED');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(calls).toBe(1);
  });
});

describe('a listener that makes the engine run while everything is given up', () => {
  const counted = (told: (settled: number) => void) => {
    let settled = 0;
    return (event: FlowEvent): void => {
      if (event.type === 'settled') told(++settled);
    };
  };

  it('leaves no load unsettled when the concurrency follows', async () => {
    const concurrency = new BehaviorSubject(1);
    const onEvent = counted(() => {
      concurrency.next(1);
    });
    const batcher = createBatcher<number, number>(never, { concurrency, maxSize: 1, onEvent: unstamped(onEvent) });
    const loads = [1, 2, 3, 4].map((item) => soon(batcher.loadAsync(item).catch(codeOf)));
    await batcher.drain({ timeoutMs: 20 });
    expect(await Promise.all(loads)).not.toContain('never');
  });

  it.each([1, 2])('counts a load that leaves at result %i only once', async (moment) => {
    const concurrency = new BehaviorSubject(1);
    const onEvent = counted((settled) => {
      if (settled === moment) last.unsubscribe();
    });
    const batcher = createBatcher<number, number>(never, { concurrency, maxSize: 1, onEvent: unstamped(onEvent) });
    const first = [1, 2].map((item) => batcher.loadAsync(item).catch(codeOf));
    const last = batcher.load(3).subscribe({ error: () => undefined });
    await Promise.resolve();
    batcher.close();
    expect(await soon(batcher.drain())).not.toBe('never');
    expect(await Promise.all(first)).toEqual(['FLOW_CLOSED', 'FLOW_CLOSED']);
    expect([batcher.snapshot().queued, concurrency.observed]).toEqual([0, false]);
  });
});

it('a pipeline that is unsubscribed starts no call that its next load would leave at once', async () => {
  const calls: (readonly number[])[] = [];
  const work = (items: readonly number[]): Observable<never> => {
    calls.push(items);
    return NEVER;
  };
  const batcher = createBatcher<number, number>(work, { concurrency: 1, maxSize: 10, window: natural() });
  const all = forkJoin(Array.from({ length: 100 }, (_, item) => batcher.load(item))).subscribe();
  await Promise.resolve();
  const started = calls.length;
  expect(started).toBe(1);
  all.unsubscribe();
  expect(calls).toHaveLength(started);
  expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
});
