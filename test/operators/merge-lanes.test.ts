import fc from 'fast-check';
import type { SchedulerLike } from 'rxjs';
import {
  asapScheduler,
  asyncScheduler,
  EMPTY,
  NEVER,
  Observable,
  of,
  queueScheduler,
  Subject,
  throwError,
  VirtualTimeScheduler,
} from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent, LaneBatch, MergeLane, MergeLanesOptions } from '../../operators/index.js';
import { mergeLanes, roundRobin, strictWithFloor, weighted } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';
import { unstamped } from '../support/events.js';

interface Item {
  readonly lane: number;
  readonly n: number;
  readonly weight: number;
}

/** Lanes `l0`, `l1`, … fed by hand, on a virtual clock. */
function world(lanes: readonly Partial<MergeLane<Item>>[], options: MergeLanesOptions<Item> = {}) {
  const scheduler = new CountingScheduler();
  const sources = lanes.map(() => new Subject<Item>());
  const batches: LaneBatch<Item>[] = [];
  const at: number[] = [];
  const events: FlowEvent[] = [];
  let ended: unknown;
  const declared = lanes.map((lane, i) => ({ name: `l${String(i)}`, source: sources[i]!, ...lane }));
  const subscription = mergeLanes(declared, { scheduler, onEvent: unstamped((event) => events.push(event)), ...options }).subscribe({
    next: (batch) => {
      batches.push(batch);
      at.push(scheduler.frame);
    },
    error: (error: unknown) => (ended = error),
    complete: () => (ended = 'complete'),
  });
  let n = 0;
  const push = (lane: number, weight = 1): Item => {
    const item = { lane, n: n++, weight };
    sources[lane]!.next(item);
    return item;
  };
  const advance = (ms: number): void => {
    const until = scheduler.frame + ms;
    scheduler.maxFrames = until;
    scheduler.flush();
    scheduler.frame = until;
  };
  return { scheduler, sources, batches, at, events, subscription, push, advance, ended: () => ended };
}

describe('mergeLanes', () => {
  const step = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant('push' as const), lane: fc.nat({ max: 4 }), weight: fc.integer({ min: 0, max: 12 }) }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.integer({ min: 1, max: 30 }) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('flush' as const) }) },
  );
  const waits = fc.constantFrom(0, 5, 50, Infinity);

  it('emits every item once, first in, first out inside a lane, in time, and never too many or too heavy', () => {
    fc.assert(
      fc.property(
        fc.record({
          lanes: fc.array(fc.record({ maxWaitMs: waits, piggyback: fc.boolean(), share: fc.integer({ min: 1, max: 5 }) }), {
            minLength: 1,
            maxLength: 5,
          }),
          steps: fc.array(step, { maxLength: 80 }),
          maxSize: fc.constantFrom(1, 3, 16, Infinity),
          maxWeight: fc.constantFrom(1, 10, Infinity),
          fairness: fc.constantFrom(strictWithFloor(), weighted(), roundRobin()),
        }),
        ({ lanes, steps, maxSize, maxWeight, fairness }) => {
          const flush = new Subject<void>();
          const { push, advance, batches, at, sources, scheduler, ended } = world(lanes, {
            maxSize,
            maxWeight,
            fairness,
            flush,
            weigh: ({ weight }) => weight,
          });
          const pushedAt: number[] = [];
          for (const each of steps) {
            if (each.do === 'push') {
              pushedAt.push(scheduler.frame);
              push(each.lane % lanes.length, each.weight);
            } else if (each.do === 'advance') advance(each.ms);
            else flush.next();
          }
          for (const source of sources) source.complete();
          expect(ended()).toBe('complete');
          const out = batches.flatMap(({ items }) => items);
          expect(out.map(({ n }) => n).sort((a, b) => a - b)).toEqual(pushedAt.map((_, i) => i));
          lanes.forEach((_, lane) => {
            const own = out.filter((item) => item.lane === lane).map(({ n }) => n);
            expect(own).toEqual([...own].sort((a, b) => a - b));
          });
          batches.forEach(({ items, lanes: names, lane, weight, reason }, i) => {
            expect(items.length).toBeGreaterThan(0);
            expect(items.length).toBeLessThanOrEqual(maxSize);
            expect(weight).toBe(items.reduce((sum, item) => sum + item.weight, 0));
            expect(weight <= maxWeight || items.length === 1).toBe(true);
            expect(reason === 'oversize').toBe(weight > maxWeight);
            expect(names).toEqual(items.map((item) => `l${String(item.lane)}`));
            expect(lane).toBe(names[0]);
            if (!lanes[Number(lane.slice(1))]!.piggyback) expect(new Set(names).size).toBe(1);
            // The oldest of a lane is never held longer than the lane waits.
            for (const item of items) {
              const first = items.find((other) => other.lane === item.lane)!;
              expect(at[i]! - pushedAt[first.n]!).toBeLessThanOrEqual(lanes[item.lane]!.maxWaitMs);
            }
          });
          expect(scheduler.actions).toHaveLength(0);
        },
      ),
      { numRuns: sized(100, 300) },
    );
  });

  it('leaves a hundred thousand items to a flat loop', () => {
    let count = 0;
    const source = new Observable<number>((subscriber) => {
      for (let n = 0; n < 100_000; n++) subscriber.next(n);
      subscriber.complete();
    });
    mergeLanes(
      [
        { name: 'high', source: EMPTY },
        { name: 'low', source },
      ],
      { maxSize: 100 },
    ).subscribe(({ items }) => (count += items.length));
    expect(count).toBe(100_000);
  });

  it('does not recurse when its consumer feeds it, a hundred thousand times', () => {
    const loop = new Subject<number>();
    const seen: number[] = [];
    mergeLanes([{ name: 'loop', source: loop }], { scheduler: queueScheduler }).subscribe(({ items: [n = 0] }) => {
      seen.push(n);
      if (n < 100_000) loop.next(n + 1);
    });
    loop.next(1);
    expect(seen).toHaveLength(100_000);
  });

  it('gathers a burst at the end of the turn on the real clock, without a timer', async () => {
    const high = new Subject<string>();
    const low = new Subject<string>();
    const seen: string[][] = [];
    const subscription = mergeLanes([
      { name: 'high', source: high },
      { name: 'low', source: low },
    ]).subscribe(({ items }) => seen.push(items));
    low.next('a');
    high.next('A');
    high.next('B');
    expect(seen).toEqual([]);
    await new Promise((resolve) => asapScheduler.schedule(resolve));
    expect(seen).toEqual([['A', 'B', 'a']]);
    subscription.unsubscribe();
  });

  it.each<[string, SchedulerLike]>([
    ['queueScheduler', queueScheduler],
    ['asapScheduler', asapScheduler],
    ['asyncScheduler', asyncScheduler],
  ])('emits what is urgent on %s, again and again', async (_name, scheduler) => {
    const high = new Subject<string>();
    const seen: string[] = [];
    const subscription = mergeLanes([{ name: 'high', source: high }], { scheduler }).subscribe(({ items }) => seen.push(items.join('')));
    for (const burst of ['a', 'b', 'c']) {
      high.next(burst);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(seen).toEqual(['a', 'b', 'c']);
    subscription.unsubscribe();
  });

  it('takes promises, iterables and streams as lanes', async () => {
    async function* later() {
      yield await Promise.resolve('later');
    }
    const seen: string[] = [];
    await mergeLanes([
      { name: 'promise', source: Promise.resolve('promised'), maxWaitMs: 500 },
      { name: 'list', source: ['listed'] },
      { name: 'async', source: later() },
    ]).forEach(({ items }) => seen.push(...items));
    expect(seen.sort()).toEqual(['later', 'listed', 'promised']);
  });

  it('refuses a list of lanes with a hole', () => {
    const lanes = new Array<MergeLane<number>>(2);
    lanes[1] = { name: 'one', source: EMPTY };
    expect(() => mergeLanes(lanes)).toThrow('mergeLanes: expected `lanes[0]` to be an object, got `undefined`');
  });

  it('starts anew for each subscriber', () => {
    const merged = mergeLanes([{ name: 'one', source: of(1, 2, 3) }], { maxSize: 2 });
    for (let n = 0; n < 2; n++) {
      const seen: number[][] = [];
      merged.subscribe(({ items }) => seen.push(items));
      expect(seen).toEqual([[1, 2], [3]]);
    }
  });

  it('tells of batches, drops, isolated errors and what is given up, in the words of the lanes', () => {
    const { push, advance, events, sources, subscription } = world([{}, { maxQueued: 2, overflow: 'dropOldest' }, {}], {
      errors: 'isolate',
    });
    push(1);
    push(1);
    push(1);
    push(0);
    advance(0);
    sources[2]!.error(Object.assign(new Error('busy'), { status: 429 }));
    push(1);
    push(1);
    subscription.unsubscribe();
    expect(events).toEqual([
      { type: 'dropped', operator: 'mergeLanes', lane: 'l1', policy: 'dropOldest' },
      { type: 'batchFormed', operator: 'mergeLanes', batchId: 'b0', lane: 'l0', reason: 'urgent', size: 3, weight: 3, waitMs: 0 },
      { type: 'swallowed', operator: 'mergeLanes', lane: 'l2' },
      { type: 'cancelled', operator: 'mergeLanes', lane: 'l1', count: 2 },
    ]);
  });

  it('completes when every lane has failed in isolation', () => {
    let completed = false;
    const failing = throwError(() => new Error('broken'));
    mergeLanes(
      [
        { name: 'a', source: failing },
        { name: 'b', source: failing },
      ],
      { errors: 'isolate' },
    ).subscribe({
      complete: () => (completed = true),
    });
    expect(completed).toBe(true);
  });

  it('errors with the very error of flush, after what waits', () => {
    const fault = new Error('no more');
    const seen: unknown[] = [];
    mergeLanes(
      [
        {
          name: 'a',
          source: new Observable<string>((to) => {
            to.next('x');
          }),
          maxWaitMs: 50,
        },
      ],
      {
        flush: new Observable((to) => {
          queueMicrotask(() => {
            to.error(fault);
          });
        }),
      },
    ).subscribe({ next: ({ items, reason }) => seen.push([...items, reason]), error: (error: unknown) => seen.push(error) });
    return Promise.resolve().then(() => {
      expect(seen).toEqual([['x', 'error'], fault]);
    });
  });

  it('leaves no timer and no lane behind', () => {
    const scheduler = new VirtualTimeScheduler();
    let left = 0;
    const source = new Observable<number>((to) => {
      to.next(1);
      return () => left++;
    });
    const lanes = [
      { name: 'a', source },
      { name: 'b', source },
      { name: 'c', source: NEVER },
    ] as const;
    mergeLanes(lanes, { scheduler }).subscribe().unsubscribe();
    expect([left, scheduler.actions.length]).toEqual([2, 0]);
  });

  it('leaves no timer behind when it is left at a batch that was due while another lane waits', () => {
    const { push, advance, batches, scheduler, subscription, sources } = world([{ maxWaitMs: 10, piggyback: false }, { maxWaitMs: 50 }], {
      onEvent: ({ type }) => {
        if (type === 'batchFormed') subscription.unsubscribe();
      },
    });
    push(0);
    push(1);
    advance(10);
    expect(batches).toEqual([]);
    expect(scheduler.actions).toHaveLength(0);
    expect(sources.some(({ observed }) => observed)).toBe(false);
  });

  it('gives the next turn to the lane that did not have the last one', () => {
    const never = { maxWaitMs: Infinity };
    const { push, batches } = world([never, never], { fairness: roundRobin(), maxWeight: 3, weigh: ({ weight }) => weight });
    for (const lane of [0, 1, 0, 0]) push(lane, 2);
    expect(batches.map(({ lanes }) => lanes)).toEqual([['l0'], ['l1'], ['l0']]);
  });

  it('arms one timer for many items', () => {
    const { push, scheduler, advance, batches } = world([{ maxWaitMs: 100 }, {}], { maxSize: Infinity, maxQueued: Infinity });
    for (let n = 0; n < 10_000; n++) push(n % 2);
    expect(scheduler.delays).toHaveLength(2);
    advance(100);
    expect(batches.map(({ items, reason }) => [items.length, reason])).toEqual([[10_000, 'time']]);
  });
});
