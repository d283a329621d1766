import { from, groupBy, mergeMap, Subject, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { mergeLanes } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';

describe('what goes wrong elsewhere', () => {
  it('groupBy and mergeMap(2) lose what a third group emits before its turn: no lane loses anything', () => {
    const values = ['a1', 'b1', 'c1', 'c2', 'a2'];
    let kept: string[] = [];
    from(values)
      .pipe(
        groupBy((value) => value.charAt(0)),
        mergeMap((group) => group, 2),
        toArray(),
      )
      .subscribe((all) => (kept = all));
    expect(kept).toHaveLength(3);

    const lanes = ['a', 'b', 'c'].map((name) => ({ name, source: values.filter((value) => value.startsWith(name)) }));
    const seen: string[] = [];
    mergeLanes(lanes, { maxSize: 2 }).subscribe(({ items }) => seen.push(...items));
    expect(seen.sort()).toEqual([...values].sort());
  });

  it('a displaced item that is too heavy waits for the next item or tick: it is sent at once, behind the batch that it closes', () => {
    const scheduler = new CountingScheduler();
    const low = new Subject<number>();
    const seen: { items: number[]; at: number }[] = [];
    mergeLanes([{ name: 'low', source: low, maxWaitMs: 1000 }], { maxWeight: 5, weigh: (n) => n, scheduler }).subscribe(({ items }) =>
      seen.push({ items, at: scheduler.frame }),
    );
    for (const n of [1, 2, 9]) low.next(n);
    expect(seen).toEqual([
      { items: [1, 2], at: 0 },
      { items: [9], at: 0 },
    ]);
  });

  it('strict priority starves the others: a lane with a floor rides along in a flood of urgent batches', () => {
    const high = new Subject<number>();
    const low = new Subject<number>();
    const lanes = [
      { name: 'high', source: high },
      { name: 'low', source: low, maxWaitMs: Infinity },
    ];
    let batches = 0;
    const rodeIn: number[] = [];
    mergeLanes(lanes, { maxSize: 10, maxWeight: 10, weigh: (n) => (n < 0 ? 10 : 1), maxQueued: Infinity }).subscribe(({ lanes: names }) => {
      batches++;
      if (names.includes('low')) rodeIn.push(batches);
      // The consumer falls behind: urgent items pile up while a batch is handed out.
      if (batches < 100) for (let n = 0; n < 10; n++) high.next(n);
    });
    for (let n = 0; n < 9; n++) low.next(n);
    high.next(0);
    expect(batches).toBeGreaterThanOrEqual(100);
    expect(rodeIn[0]).toBeLessThanOrEqual(11);
  });

  it('a queue with ties broken at random shuffles equals: equals stay in order, a thousand of them', () => {
    const high = new Subject<number>();
    const low = new Subject<number>();
    const seen: number[] = [];
    mergeLanes(
      [
        { name: 'high', source: high, maxWaitMs: 500 },
        { name: 'low', source: low },
      ],
      { maxSize: 7 },
    ).subscribe(({ items }) => seen.push(...items));
    for (let n = 0; n < 1000; n++) {
      high.next(2 * n);
      low.next(2 * n + 1);
    }
    high.complete();
    low.complete();
    for (const odd of [0, 1]) {
      const equals = seen.filter((n) => n % 2 === odd);
      expect(equals).toEqual([...equals].sort((a, b) => a - b));
      expect(equals).toHaveLength(1000);
    }
  });

  it('one bound for all lanes lets the background keep the urgent out at the door: bounds are per lane', () => {
    const scheduler = new CountingScheduler();
    const high = new Subject<string>();
    const low = new Subject<string>();
    const events: FlowEvent[] = [];
    const seen: string[][] = [];
    mergeLanes(
      [
        { name: 'high', source: high },
        { name: 'low', source: low },
      ],
      {
        maxQueued: 3,
        overflow: 'dropNewest',
        scheduler,
        onEvent: unstamped((event) => events.push(event)),
      },
    ).subscribe(({ items }) => seen.push(items));
    for (const item of ['a', 'b', 'c', 'd', 'e']) low.next(item);
    high.next('A');
    scheduler.maxFrames = 0;
    scheduler.flush();
    expect(seen).toEqual([['A', 'a', 'b', 'c']]);
    expect(events.filter(({ type }) => type === 'dropped')).toEqual(
      ['d', 'e'].map(() => ({ type: 'dropped', operator: 'mergeLanes', lane: 'low', policy: 'dropNewest' })),
    );
  });

  it('a full queue gives up accepted work for something more urgent: what a lane has accepted, urgent items never push out', () => {
    const high = new Subject<number>();
    const low = new Subject<number>();
    const seen: number[] = [];
    mergeLanes(
      [
        { name: 'high', source: high, maxWaitMs: 500 },
        { name: 'low', source: low },
      ],
      {
        maxQueued: 5,
        maxSize: Infinity,
        overflow: 'dropOldest',
      },
    ).subscribe(({ items }) => seen.push(...items));
    for (let n = 0; n < 5; n++) low.next(n);
    for (let n = 100; n < 200; n++) high.next(n);
    low.complete();
    high.complete();
    expect(seen).toEqual([195, 196, 197, 198, 199, 0, 1, 2, 3, 4]);
  });

  it('"flush at once" tears a burst apart: two urgent items of one burst are in one batch', () => {
    const scheduler = new CountingScheduler();
    const seen: string[][] = [];
    const high = new Subject<string>();
    const low = new Subject<string>();
    mergeLanes(
      [
        { name: 'high', source: high },
        { name: 'low', source: low },
      ],
      { scheduler },
    ).subscribe(({ items }) => seen.push(items));
    low.next('L1');
    high.next('H1');
    low.next('L2');
    high.next('H2');
    scheduler.maxFrames = 0;
    scheduler.flush();
    expect(seen).toEqual([['H1', 'H2', 'L1', 'L2']]);
  });

  it('a buffer with a closing notifier emits everything, as it came: a batch is capped and in the order of the lanes', () => {
    const flush = new Subject<void>();
    const high = new Subject<string>();
    const low = new Subject<string>();
    const seen: string[][] = [];
    mergeLanes(
      [
        { name: 'high', source: high, maxWaitMs: 500 },
        { name: 'low', source: low },
      ],
      { maxWeight: 3, flush },
    ).subscribe(({ items }) => seen.push(items));
    for (const item of ['L1', 'L2']) low.next(item);
    for (const item of ['H1', 'H2']) high.next(item);
    flush.next();
    expect(seen).toEqual([['H1', 'L1', 'L2'], ['H2']]);
  });
});
