import type { Observable } from 'rxjs';
import { of, Subject } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { LaneBatch, MergeLane, MergeLanesOptions } from '../../operators/index.js';
import { mergeLanes, roundRobin, strictWithFloor, weighted } from '../../operators/index.js';

describe('mergeLanes', () => {
  it('knows the items and the names of its lanes', () => {
    const merged = mergeLanes([
      { name: 'high', source: of(1, 2) },
      { name: 'low', source: Promise.resolve('text') },
    ]);
    expectTypeOf(merged).toEqualTypeOf<Observable<LaneBatch<number | string, 'high' | 'low'>>>();
    expectTypeOf<LaneBatch<number, 'a' | 'b'>['lanes']>().toEqualTypeOf<('a' | 'b')[]>();
    expectTypeOf<LaneBatch<number, 'a' | 'b'>['items']>().toEqualTypeOf<number[]>();
  });

  it('takes lanes that were made elsewhere', () => {
    const lanes: MergeLane<number>[] = [{ name: 'only', source: [1, 2, 3], maxWaitMs: 20, maxQueued: 5, overflow: 'latest', floor: 0 }];
    expectTypeOf(mergeLanes(lanes)).toEqualTypeOf<Observable<LaneBatch<number>>>();
  });

  it('tells callbacks the type of the item', () => {
    void mergeLanes([{ name: 'one', source: new Subject<{ tokens: number }>() }], {
      weigh: (item) => {
        expectTypeOf(item).toEqualTypeOf<{ tokens: number }>();
        return item.tokens;
      },
    });
  });

  it('takes fairness as a value', () => {
    const lanes = [{ name: 'one', source: of(1), share: 3 }];
    for (const fairness of [strictWithFloor(), strictWithFloor(0.2), weighted(), roundRobin()]) void mergeLanes(lanes, { fairness });
    // @ts-expect-error not a value
    void mergeLanes(lanes, { fairness: 'strict' });
  });

  it('refuses wrong lanes and options', () => {
    // @ts-expect-error a lane has a name
    void mergeLanes([{ source: of(1) }]);
    // @ts-expect-error a lane has a source
    void mergeLanes([{ name: 'one' }]);
    // @ts-expect-error a full lane drops nothing of others
    void mergeLanes([{ name: 'one', source: of(1), overflow: 'dropLowest' }]);
    // @ts-expect-error waits belong to lanes
    void mergeLanes([{ name: 'one', source: of(1) }], { maxWaitMs: 5 });
  });

  it('has readonly options', () => {
    expectTypeOf<MergeLanesOptions<number>>().toEqualTypeOf<Readonly<MergeLanesOptions<number>>>();
  });
});
