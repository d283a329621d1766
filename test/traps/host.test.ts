import { getEventListeners } from 'node:events';
import type { Observable } from 'rxjs';
import { delay, from, mergeMap, of, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import {
  batch,
  batchMap,
  batchMapFrom,
  bulkheadMap,
  createBatcher,
  createLimiter,
  hedge,
  mergeLanes,
  settleAll,
  speculate,
  switchLatest,
  unwrap,
} from '../../operators/index.js';
import { numbers } from './tools.js';

describe('a signal that lives as long as a session', () => {
  /** A call that listens to the signal it is given and never stops doing so, as most do. */
  const call = (signal: AbortSignal): Promise<string> => {
    signal.addEventListener('abort', () => undefined);
    return Promise.resolve('answer');
  };
  const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

  it('gathers a listener for each call it is handed to; here calls get signals of their own, and none is left on it', async () => {
    const theirs = new AbortController().signal;
    for (const _ of numbers(10)) await call(theirs);
    expect(listeners(theirs)).toBe(10);

    const { signal } = new AbortController();
    const batcher = createBatcher((items: readonly number[], context) => call(context.signal).then(() => items), { maxSize: 1 });
    const limiter = createLimiter({ concurrency: 1 });
    for (const i of numbers(10)) {
      await batcher.loadAsync(i, { signal });
      await limiter.runAsync((context) => call(context.signal), { signal });
      (await limiter.acquireAsync({ signal })).release();
    }
    expect(listeners(signal)).toBe(0);
  });
});

describe('a turn of the promise queue in the path of an item', () => {
  /** An operator as it is often written: it awaits, although there is nothing to wait for. */
  const hopping = mergeMap(async (item: string) => Promise.resolve(item));

  const seenIn = (make: () => Observable<unknown>): unknown[] =>
    virtualTime(({ flush }) => {
      const seen: unknown[] = [];
      make().subscribe((value) => seen.push(value));
      flush();
      return seen;
    });

  const later = (item: string): Observable<string> => of(item).pipe(delay(5));
  const laterAll = (items: readonly string[]): Observable<readonly string[]> => of(items).pipe(delay(5));

  const paths: Readonly<Record<string, () => Observable<unknown>>> = {
    batch: () => of('a').pipe(batch()),
    batchMap: () => of('a').pipe(batchMap(laterAll)),
    batchMapFrom: () => batchMapFrom(['a'], laterAll),
    bulkheadMap: () => of('a').pipe(bulkheadMap(later)),
    'bulkheadMap, one per key': () => of('a').pipe(bulkheadMap(later, { key: (item) => item, perKey: 1 })),
    createBatcher: () => createBatcher(laterAll).load('a'),
    createLimiter: () => createLimiter({ concurrency: 1 }).run(() => later('a')),
    hedge: () => hedge(() => later('a'), { delayMs: 50 }),
    mergeLanes: () => mergeLanes([{ name: 'one', source: of('a') }]),
    settleAll: () => settleAll(['a'], later),
    speculate: () => speculate(later, { predict: of('a'), confirm: timer(10).pipe(mergeMap(() => of('a'))), match: () => true }),
    switchLatest: () => of('a').pipe(switchLatest(later)),
    unwrap: () => of('a').pipe(bulkheadMap(later), unwrap('values')),
  };

  it('makes virtual time end before the item comes', () => {
    expect(seenIn(() => from(['a']).pipe(hopping))).toEqual([]);
  });

  it.each(Object.entries(paths))('is not there: %s', (_name, make) => {
    expect(seenIn(make)).toHaveLength(1);
  });
});
