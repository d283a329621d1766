import { from, lastValueFrom, toArray } from 'rxjs';
import { describe, expect, expectTypeOf, it } from 'vitest';
import type { Fulfilled, Rejected, Settled } from '../../operators/index.js';
import { batchMap, partitionSettled, settleAll } from '../../operators/index.js';

const half = async (n: number): Promise<number> => {
  await Promise.resolve();
  if (n % 2 === 1) throw new Error(`${String(n)} is odd`);
  return n / 2;
};

describe('partitionSettled', () => {
  it('parts what settleAll emits, in its order', async () => {
    const results = await lastValueFrom(settleAll([6, 5, 4, 3], half));
    const { fulfilled, rejected } = partitionSettled(results);
    expect(fulfilled.map(({ input, value }) => [input, value])).toEqual([
      [6, 3],
      [4, 2],
    ]);
    expect(rejected.map(({ input, reason }) => [input, (reason as Error).message])).toEqual([
      [5, '5 is odd'],
      [3, '3 is odd'],
    ]);
    // The same objects: nothing is copied.
    expect(results).toEqual([fulfilled[0], rejected[0], fulfilled[1], rejected[1]]);
    expect(results.every((one) => fulfilled.includes(one as never) || rejected.includes(one as never))).toBe(true);
    expectTypeOf(fulfilled).toEqualTypeOf<Fulfilled<number, number>[]>();
    expectTypeOf(rejected).toEqualTypeOf<Rejected<number>[]>();
  });

  it('parts what a stream of results has gathered', async () => {
    const work = (texts: readonly string[]) => Promise.resolve(texts.map((text) => (text === '' ? new Error('empty') : text.length)));
    const { fulfilled, rejected } = partitionSettled(await lastValueFrom(from(['a', '', 'bcd']).pipe(batchMap(work), toArray())));
    expect([fulfilled.map(({ value }) => value), rejected.map(({ index }) => index)]).toEqual([[1, 3], [1]]);
  });

  it('parts what Promise.allSettled answers', async () => {
    const { fulfilled, rejected } = partitionSettled(await Promise.allSettled([half(2), half(1)]));
    expect([fulfilled.map(({ value }) => value), rejected.length]).toEqual([[1], 1]);
    expectTypeOf(fulfilled).toEqualTypeOf<PromiseFulfilledResult<number>[]>();
    expectTypeOf(rejected).toEqualTypeOf<PromiseRejectedResult[]>();
  });

  it('keeps the types of a generic caller', () => {
    const values = <T, R>(results: readonly Settled<T, R>[]): R[] => partitionSettled(results).fulfilled.map(({ value }) => value);
    expect(values([])).toEqual([]);
  });
});
