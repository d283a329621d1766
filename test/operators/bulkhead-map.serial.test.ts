import fc from 'fast-check';
import { concat, NEVER, Observable, of, range, Subject, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { createWorker } from '../../marbles/worker.js';
import { bulkheadMap, ClosedError, createLimiter, inputOrder, OverflowError } from '../../operators/index.js';
import { sized } from '../support/deep.js';

const MANY = 100_000;
const initial = (item: string): string => item.charAt(0);

/** Subscribes and keeps what happens. */
function watch<R>(stream: Observable<R>) {
  const values: R[] = [];
  const ends: unknown[] = [];
  const subscription = stream.subscribe({
    next: (value) => values.push(value),
    error: (error: unknown) => ends.push(error),
    complete: () => ends.push('complete'),
  });
  return { values, ends, subscription };
}

describe('one per key, with a queue of 100,000', () => {
  it.each([1, 100, MANY])('runs synchronous inner streams of %d key(s) on a flat stack', (keys) => {
    const gate = new Subject<number>();
    const source = new Subject<number>();
    const { values, ends } = watch(
      source.pipe(
        bulkheadMap((item) => (item === 0 ? gate : of(item)), {
          key: (item: number) => (item === 0 ? 0 : item % keys),
          perKey: 1,
          concurrency: 1,
          maxQueued: Infinity,
        }),
      ),
    );
    for (let i = 0; i < MANY; i++) source.next(i);
    source.complete();
    expect(values).toHaveLength(0);
    gate.complete();
    expect(values).toHaveLength(MANY);
    expect(ends).toEqual(['complete']);
  });

  it('loses nothing of a consumer that feeds the source', () => {
    const source = new Subject<number>();
    const seen: number[] = [];
    source.pipe(bulkheadMap((item) => of(item), { key: (item: number) => item % 3, perKey: 1, errors: 'propagate' })).subscribe((item) => {
      seen.push(item);
      if (item + 1 < MANY) source.next(item + 1);
    });
    source.next(0);
    expect(seen).toEqual(Array.from({ length: MANY }, (_, i) => i));
  });

  it('keeps promises of a key in order', async () => {
    const seen: number[] = [];
    await range(0, 1000)
      .pipe(bulkheadMap((item) => Promise.resolve(item), { key: (item) => item % 7, perKey: 1, errors: 'propagate' }))
      .forEach((item) => seen.push(item));
    for (let key = 0; key < 7; key++) {
      const own = seen.filter((item) => item % 7 === key);
      expect(own).toEqual([...own].sort((a, b) => a - b));
    }
    expect(seen).toHaveLength(1000);
  });
});

describe('bulkheadMap with perKey 1', () => {
  it('settles every item once, in the order of its key, with one under way per key', () => {
    const item = fc.record({ key: fc.nat({ max: 3 }), ms: fc.nat({ max: 6 }), fails: fc.boolean(), gap: fc.nat({ max: 3 }) });
    const options = fc.record({
      concurrency: fc.constantFrom(1, 2, Infinity),
      isInOrder: fc.boolean(),
      stopKey: fc.boolean(),
      timeoutMs: fc.constantFrom(4, Infinity),
    });
    fc.assert(
      fc.property(fc.array(item, { maxLength: 25 }), options, (items, { isInOrder, ...given }) => {
        virtualTime(({ scheduler, advance }) => {
          const running = new Set<number>();
          let problems = 0;
          const source = new Subject<(typeof items)[number]>();
          const { values, ends } = watch(
            source.pipe(
              bulkheadMap(
                ({ key, ms, fails }) =>
                  new Observable<number>((subscriber) => {
                    if (running.has(key) || running.size >= given.concurrency) problems++;
                    running.add(key);
                    subscriber.add(
                      scheduler.schedule(() => {
                        if (fails) subscriber.error(new Error('failed'));
                        else subscriber.complete();
                      }, ms),
                    );
                    return () => running.delete(key);
                  }),
                { key: ({ key }) => key, perKey: 1, ...given, ...(isInOrder && { order: inputOrder() }) },
              ),
            ),
          );
          for (const each of items) {
            advance(each.gap);
            source.next(each);
          }
          source.complete();
          advance(1000);
          expect(problems).toBe(0);
          expect(ends).toEqual(['complete']);
          expect(values.map(({ index }) => index).sort((a, b) => a - b)).toEqual(items.map((_, i) => i));
          for (let key = 0; key < 4; key++) {
            const own = values.filter(({ input }) => input.key === key);
            expect(own.map(({ index }) => index)).toEqual(own.map(({ index }) => index).sort((a, b) => a - b));
            const failed = own.findIndex(({ status }) => status === 'rejected');
            if (given.stopKey && failed !== -1)
              for (const settled of own.slice(failed + 1))
                expect(settled.status === 'rejected' && settled.reason).toBeInstanceOf(ClosedError);
          }
        });
      }),
      { numRuns: sized(60, 300) },
    );
  });

  it('forgets keys that are idle: one after the other they fit in one', () => {
    const { values, ends } = watch(of('a', 'b', 'a', 'c').pipe(bulkheadMap((item) => of(item), { key: initial, perKey: 1, maxKeys: 1 })));
    expect(values.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'fulfilled']);
    expect(ends).toEqual(['complete']);
  });

  it('counts stopped keys as keys, because it remembers them', () => {
    const bad = new Error('bad');
    const { values, ends } = watch(
      of('a', 'b').pipe(bulkheadMap(() => throwError(() => bad), { key: initial, perKey: 1, stopKey: true, maxKeys: 1 })),
    );
    expect(values.map((settled) => settled.status === 'rejected' && settled.reason)).toEqual([
      bad,
      new OverflowError('bulkheadMap', 1, 'error', 'maxKeys'),
    ]);
    expect(ends).toEqual([new OverflowError('bulkheadMap', 1, 'error', 'maxKeys')]);
  });

  it('says why a key was stopped', () => {
    const fault = new Error('card refused');
    const { values } = watch(of('a1', 'a2').pipe(bulkheadMap(() => throwError(() => fault), { key: initial, perKey: 1, stopKey: true })));
    const [, second] = values;
    expect(second).toMatchObject({ status: 'rejected', attempts: 0, reason: { code: 'FLOW_CLOSED', cause: fault } });
  });

  it('lets a slot of a limiter go round the keys', () => {
    const limiter = createLimiter({ concurrency: 1 });
    virtualTime(({ flush }) => {
      const worker = createWorker<string, string>({ marbles: '--(r|)', answer: (item) => item });
      const { values } = watch(
        of('a1', 'a2', 'b1').pipe(
          bulkheadMap((item, context) => worker.work(item, context), { key: initial, perKey: 1, limiter, errors: 'propagate' }),
        ),
      );
      flush();
      expect(values).toEqual(['a1', 'b1', 'a2']);
      expect(worker.peak).toBe(1);
    });
    expect(limiter.executing).toBe(0);
  });

  it('aborts every signal once when the consumer leaves', () => {
    const aborted: string[] = [];
    const { subscription } = watch(
      concat(of('a1', 'a2', 'b1'), NEVER).pipe(
        bulkheadMap(
          (item, { signal }) => {
            signal.addEventListener('abort', () => aborted.push(item));
            return NEVER;
          },
          { key: initial, perKey: 1 },
        ),
      ),
    );
    subscription.unsubscribe();
    expect(aborted).toEqual(['a1', 'b1']);
  });

  it('lets the items of a stopped key that are under way finish', () => {
    const calls = { a1: new Subject<string>(), a2: new Subject<string>() };
    const { values, ends } = watch(
      of('a1', 'a2', 'a3').pipe(bulkheadMap((item) => calls[item as keyof typeof calls], { key: initial, perKey: 2, stopKey: true })),
    );
    calls.a1.error(new Error('no'));
    calls.a2.next('late');
    calls.a2.complete();
    expect(values.map((settled) => (settled.status === 'fulfilled' ? settled.value : (settled.reason as Error).name))).toEqual([
      'Error',
      'ClosedError',
      'late',
    ]);
    expect(ends).toEqual(['complete']);
  });
});
