import fc from 'fast-check';
import { from, map, range, Subject, take } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { leakCheck } from '../../marbles/leak-check.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, ResequenceOptions } from '../../operators/index.js';
import { isFlowError, resequence, SequenceError } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';

const sequence = (item: number): number => item;
const numbers = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

function collect(items: readonly number[], options: ResequenceOptions = {}, numberOf = sequence) {
  const seen: number[] = [];
  const errors: unknown[] = [];
  const events: FlowEvent[] = [];
  let completed = false;
  from(items)
    .pipe(resequence(numberOf, { ...options, onEvent: unstamped((event) => events.push(event)) }))
    .subscribe({ next: (item) => seen.push(item), error: (error: unknown) => errors.push(error), complete: () => (completed = true) });
  return { seen, errors, events, completed };
}

/** A permutation in which no item comes more than `most` places early or late. */
const displaced = fc.tuple(fc.nat({ max: 60 }), fc.integer({ min: 1, max: 20 })).chain(([n, most]) =>
  fc.tuple(
    fc
      .array(fc.nat({ max: most }), { minLength: n, maxLength: n })
      .map((delays) => numbers(n).sort((a, b) => a + (delays[a] as number) - (b + (delays[b] as number)) || a - b)),
    fc.constant(most),
  ),
);

describe('order', () => {
  it('is restored for every permutation with bounded displacement, nothing lost or doubled', () => {
    fc.assert(
      fc.property(displaced, ([items, most]) => {
        const { seen, errors, events, completed } = collect(items, { maxQueued: most });
        expect(seen).toEqual(numbers(items.length));
        expect({ errors, events, completed }).toEqual({ errors: [], events: [], completed: true });
      }),
    );
  });

  /** What should come out, worked out by looking through everything again for each item. */
  function model(items: readonly number[], maxQueued: number) {
    const seen: number[] = [];
    const dropped: string[] = [];
    let held: number[] = [];
    let next = 0;
    let skippedTo = 0;
    let skipped = 0;
    const giveUpFirst = (): void => {
      const lowest = Math.min(...held);
      skipped += lowest - next;
      next = skippedTo = lowest;
    };
    const handOut = (): void => {
      while (held.includes(next)) {
        const ready = next++;
        held = held.filter((item) => item !== ready);
        seen.push(ready);
      }
    };
    for (const item of items) {
      if (held.includes(item) || (item < next && item >= skippedTo)) dropped.push('duplicate');
      else if (item < next) dropped.push('late');
      else held.push(item);
      handOut();
      if (held.length > maxQueued) giveUpFirst();
      handOut();
    }
    while (held.length > 0) {
      giveUpFirst();
      handOut();
    }
    return { seen, dropped, skipped };
  }

  it('with losses and duplicates is what a naive model says', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 40 }), { maxLength: 80 }), fc.nat({ max: 6 }), (items, maxQueued) => {
        const { seen, errors, events } = collect(items, { maxQueued, onGap: 'skip' });
        const wanted = model(items, maxQueued);
        expect(seen).toEqual(wanted.seen);
        expect(errors).toEqual([]);
        expect(events.flatMap((event) => (event.type === 'dropped' ? [event.policy] : []))).toEqual(wanted.dropped);
        expect(events.reduce((sum, event) => sum + (event.type === 'gapSkipped' ? event.missing : 0), 0)).toBe(wanted.skipped);
      }),
    );
  });

  it('holds in time as well: every item leaves within maxWaitMs, in order, once', () => {
    const arrival = fc.record({ afterMs: fc.nat({ max: 8 }), item: fc.nat({ max: 60 }) });
    fc.assert(
      fc.property(fc.array(arrival, { maxLength: 60 }), fc.constantFrom(0, 5, 20), (arrivals, maxWaitMs) => {
        virtualTime(({ advance, flush, now, pending }) => {
          const source = new Subject<number>();
          const cameAt = new Map<number, number>();
          const seen: number[] = [];
          const subscription = source.pipe(resequence(sequence, { maxWaitMs, onGap: 'skip' })).subscribe((item) => {
            expect(now() - (cameAt.get(item) as number)).toBeLessThanOrEqual(maxWaitMs);
            seen.push(item);
          });
          for (const { afterMs, item } of arrivals) {
            advance(afterMs);
            if (!cameAt.has(item)) cameAt.set(item, now());
            source.next(item);
          }
          flush();
          expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
          expect(pending()).toBe(0);
          subscription.unsubscribe();
        });
      }),
    );
  });
});

describe('gaps', () => {
  it('error with what is missing and how much waited', () => {
    const { seen, errors } = collect([0, 5, 7, 6], { maxQueued: 2 });
    expect(seen).toEqual([0]);
    expect(errors[0]).toBeInstanceOf(SequenceError);
    expect(isFlowError(errors[0], 'FLOW_SEQUENCE_GAP')).toBe(true);
    expect(errors[0]).toMatchObject({
      sequence: 1,
      missingCount: 4,
      held: 3,
      message: 'resequence: gave up waiting for 1 to 4, with 3 held behind',
    });
  });

  it('are reported when they are passed over, and so is what comes late', () => {
    const { seen, events } = collect([0, 3, 4, 1, 4, 7], { maxQueued: 1, onGap: 'skip' });
    expect(seen).toEqual([0, 3, 4, 7]);
    const base = { operator: 'resequence', lane: 'default' };
    expect(events).toEqual([
      { type: 'gapSkipped', ...base, missing: 2, held: 2 },
      { type: 'dropped', ...base, policy: 'late' },
      { type: 'dropped', ...base, policy: 'duplicate' },
      { type: 'gapSkipped', ...base, missing: 2, held: 1 },
    ]);
  });

  it('may be as wide as numbers go: no time or memory is spent on what is missing', () => {
    const far = Number.MAX_SAFE_INTEGER - 1;
    expect(collect([0, far], { onGap: 'skip' }).seen).toEqual([0, far]);
  });

  it('are waited for to the end without bounds: the wait of onGap that is no policy', () => {
    const items = [...numbers(5000).slice(1).reverse(), 0];
    expect(collect(items, { maxQueued: Infinity }).seen).toEqual(numbers(5000));
  });

  it('that close leave no timer', () => {
    const scheduler = new CountingScheduler();
    const source = new Subject<number>();
    source.pipe(resequence(sequence, { maxWaitMs: 5000, scheduler })).subscribe();
    source.next(1);
    expect(scheduler.actions).toHaveLength(1);
    source.next(0);
    expect(scheduler.actions).toHaveLength(0);
  });

  it('need no timer and no clock without a time limit', () => {
    const scheduler = new CountingScheduler();
    scheduler.now = () => {
      throw new Error('the clock was read');
    };
    const source = new Subject<number>();
    const seen: number[] = [];
    source.pipe(resequence(sequence, { scheduler })).subscribe((item) => seen.push(item));
    for (const item of [2, 1, 0]) source.next(item);
    expect(seen).toEqual([0, 1, 2]);
    expect(scheduler.delays).toEqual([]);
  });

  it('are over for a consumer that leaves while they are passed over', () => {
    const events: string[] = [];
    const seen: number[] = [];
    from([5, 3, 1])
      .pipe(resequence(sequence, { onGap: 'skip', onEvent: ({ type }) => events.push(type) }), take(1))
      .subscribe((item) => seen.push(item));
    expect(seen).toEqual([1]);
    expect(events).toEqual(['gapSkipped', 'cancelled']);
  });
});

describe('duplicates', () => {
  it('are dropped and told, apart from numbers that were given up and come late', () => {
    const policies = (items: readonly number[], options = {}) =>
      collect(items, options).events.flatMap((event) => (event.type === 'dropped' ? [event.policy] : []));
    expect(policies([0, 0, 2, 2])).toEqual(['duplicate', 'duplicate']);
    expect(policies([0, 2, 1], { maxQueued: 0, onGap: 'skip' })).toEqual(['late']);
  });
});

describe('numbers', () => {
  it.each([NaN, 1.5, Infinity, 2 ** 53, '1', null, undefined])('of %o are refused', (number) => {
    const { errors } = collect([0], {}, () => number as number);
    expect(errors[0]).toMatchObject({ code: 'FLOW_CALLBACK', callback: 'sequence' });
  });

  it('below 0 are dropped', () => {
    expect(collect([-1, 1, -2, 0]).seen).toEqual([0, 1]);
  });
});

describe('traps', () => {
  it('does not recurse when the consumer answers every item with the next', () => {
    const source = new Subject<number>();
    let count = 0;
    source.pipe(resequence(sequence)).subscribe((item) => {
      count++;
      if (item < 1e5) source.next(item + 1);
    });
    source.next(0);
    expect(count).toBe(1e5 + 1);
  });

  it('passes a hundred thousand items, swapped in pairs, and holds two at most', () => {
    let wanted = 0;
    range(0, 1e5)
      .pipe(
        map((i) => i ^ 1),
        resequence(sequence, { maxQueued: 1 }),
      )
      .subscribe((item) => {
        if (item !== wanted) throw new Error(`${String(item)} came in place of ${String(wanted)}`);
        wanted++;
      });
    expect(wanted).toBe(1e5);
  });

  it('stays in order under what the consumer sends back, completing included', () => {
    const source = new Subject<number>();
    const heard: unknown[] = [];
    source.pipe(resequence(sequence)).subscribe({
      next: (item) => {
        heard.push(item);
        if (item !== 0) return;
        source.next(3);
        source.next(1);
        source.complete();
        heard.push('handed');
      },
      complete: () => heard.push('complete'),
    });
    source.next(2);
    source.next(0);
    expect(heard).toEqual([0, 'handed', 1, 2, 3, 'complete']);
  });

  it.each(['sequence', 'onEvent'])('sets no timer when %s makes the consumer leave, or sends one more then', (name) => {
    const scheduler = new CountingScheduler();
    const source = new Subject<number>();
    const subscription = source
      .pipe(
        resequence<number>(
          (item) => {
            if (name === 'sequence') subscription.unsubscribe();
            return item;
          },
          {
            maxWaitMs: 5,
            scheduler,
            onEvent: () => {
              source.next(9);
            },
          },
        ),
      )
      .subscribe();
    source.next(4);
    subscription.unsubscribe();
    expect(scheduler.actions).toHaveLength(0);
  });

  it('leaves nothing behind, whichever way it is left, 1,000 times', () => {
    const scheduler = new CountingScheduler();
    using leaks = leakCheck({ scheduler });
    for (let i = 0; i < 1000; i++) {
      const source = new Subject<number>();
      const subscription = leaks
        .watch<number>('the source', source)
        .pipe(resequence(sequence, { maxWaitMs: 1000, scheduler }))
        .subscribe({ error: () => undefined });
      for (const item of [0, 2, 3, 7]) source.next(item);
      if (i % 3 === 0) source.complete();
      else if (i % 3 === 1) source.error(new Error('the end'));
      else subscription.unsubscribe();
    }
    expect(leaks.left()).toEqual([]);
  });
});
