import type { Observable } from 'rxjs';
import { concat, delay, map, merge, NEVER, of, range, Subject, take, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { BatchMapOptions, FlowEvent, Overflow } from '../../operators/index.js';
import {
  batchMap,
  batchMapFrom,
  classifyError,
  createBatcher,
  createLimiter,
  divideAndConquer,
  fixed,
  inputOrder,
  lanes,
  natural,
  orderPerKey,
  perMinute,
  robust,
  splitItem,
  unwrap,
} from '../../operators/index.js';
import type { BatchResult } from '../../operators/options/types.js';
import { atOnce } from '../support/at-once.js';

const repaired = { classify: classifyError, repair: robust() };

/** A call per item or batch that takes as many ms as its first item says. */
const sleep = (items: readonly number[]): Observable<readonly number[]> => timer(items[0] ?? 0).pipe(map(() => items));

/** What comes out, as text: values, `!input` for a rejected one, the error or `|` at the end. */
function run<T, R>(source: Observable<T>, work: (items: readonly T[]) => Observable<BatchResult<R>>, options: BatchMapOptions<T, R>) {
  return virtualTime(({ flush, now }) => {
    const out: string[] = [];
    const reasons: unknown[] = [];
    const calls: string[] = [];
    source
      .pipe(
        batchMap((items: readonly T[]) => {
          calls.push(`${String(now())}:${items.join(' ')}`);
          return work(items);
        }, options),
      )
      .subscribe({
        next: (settled) => {
          if (settled.status === 'rejected') reasons.push(settled.reason);
          out.push(settled.status === 'fulfilled' ? String(settled.value) : `!${String(settled.input)}`);
        },
        error: (error: unknown) => {
          reasons.push(error);
          out.push('#');
        },
        complete: () => out.push('|'),
      });
    flush();
    return { out: out.join(' '), reasons, calls };
  });
}

describe('order', () => {
  const one = { maxSize: 1, concurrency: 3 } as const;

  it('without one hands results on as calls end', () => {
    expect(run(of(30, 10, 20), sleep, one).out).toBe('10 20 30 |');
  });

  it('inputOrder() keeps the order of acceptance, rejected items included', () => {
    const work = (items: readonly number[]) => (items[0] === 10 ? throwError(() => new Error('no')) : sleep(items));
    expect(run(of(30, 10, 20), work, { ...one, order: inputOrder() }).out).toBe('30 !10 20 |');
  });

  it('orderPerKey() keeps it for equal keys only', () => {
    const key = (item: number): number => item % 2;
    expect(run(of(31, 10, 21, 40, 20), sleep, { ...one, concurrency: 5, order: orderPerKey(key) }).out).toBe('10 31 21 40 20 |');
  });

  it('gives an item that is too heavy, expired or dropped its place in line', () => {
    const weigh = (item: number): number => (item === 7 ? 99 : 1);
    const options = { ...one, order: inputOrder(), weigh, maxWeight: 5, oversize: 'reject', deadlineMs: (item: number) => item } as const;
    expect(run(of(30, 7, 5), (items) => timer(items[0] === 30 ? 20 : 50).pipe(map(() => items)), options).out).toBe('30 !7 !5 |');
    const dropped = run(of(30, 1, 2, 3), sleep, {
      ...one,
      concurrency: 1,
      order: inputOrder(),
      maxQueued: 2,
      overflow: 'dropOldest',
      scheduler: atOnce(),
    });
    expect(dropped.out).toBe('30 !1 2 3 |');
  });

  it('lets a key that throws reject its item out of line', () => {
    const key = (item: number): number => {
      if (item === 10) throw new Error('no key');
      return 0;
    };
    expect(run(of(30, 10, 20), sleep, { ...one, order: orderPerKey(key) }).out).toBe('!10 30 20 |');
  });

  it('counts results held back towards maxQueued, and still lets the first one retry', () => {
    const calls: number[] = [];
    let attempts = 0;
    const out = virtualTime(({ flush }) => {
      const seen: number[] = [];
      const items = Array.from({ length: 40 }, (_, i) => i);
      batchMapFrom<number, number>(
        items,
        (batch: readonly number[]) => {
          calls.push(...batch);
          if (batch[0] === 0 && attempts++ < 2) return timer(10).pipe(map(() => [Object.assign(new Error('busy'), { status: 503 })]));
          return timer(1).pipe(map(() => batch));
        },
        {
          maxSize: 1,
          concurrency: 2,
          maxQueued: 4,
          order: inputOrder(),
          classify: classifyError,
          repair: robust({ retry: { delayMs: 100, jitter: 'none' } }),
        },
      ).subscribe((settled) => seen.push(settled.index));
      flush();
      return seen;
    });
    expect(out).toEqual(Array.from({ length: 40 }, (_, i) => i));
    const untilRepeated = calls.lastIndexOf(0);
    // Four results and what was under way at that moment.
    expect(new Set(calls.slice(0, untilRepeated)).size).toBeLessThanOrEqual(7);
  });

  it('sends the item that is waited for, however little urgent, when no other result has room', () => {
    const queue = lanes([{ name: 'urgent' }, { name: 'later', floor: 0 }], { by: (item: number) => (item === 1000 ? 'later' : 'urgent') });
    const source = merge(of(1000), timer(1, 1).pipe(map((i) => i)));
    const got = virtualTime(({ advance }) => {
      const seen: number[] = [];
      const subscription = source
        .pipe(
          batchMap((items: readonly number[]) => timer(2).pipe(map(() => items)), {
            queue,
            maxSize: 1,
            concurrency: 1,
            maxQueued: 20,
            overflow: 'dropNewest',
            order: inputOrder(),
            window: fixed(1),
          }),
        )
        .subscribe(({ input }) => seen.push(input));
      advance(300);
      subscription.unsubscribe();
      return seen;
    });
    expect(got[0]).toBe(1000);
    expect(got.length).toBeGreaterThan(30);
  });

  it('frees the place of a load that left', () => {
    const answers = virtualTime(({ flush }) => {
      const seen: number[] = [];
      const batcher = createBatcher(sleep, { ...one, order: inputOrder() });
      const first = batcher.load(50).subscribe((value) => seen.push(value));
      batcher.load(10).subscribe((value) => seen.push(value));
      timer(20).subscribe(() => {
        expect(batcher.snapshot().heldBack).toBe(1);
        first.unsubscribe();
        expect(seen).toEqual([10]);
      });
      flush();
      return seen;
    });
    expect(answers).toEqual([10]);
  });
});

describe('overflow', () => {
  const key = (item: number): number => item % 2;
  const orders = [
    ['completion', {}],
    ['input', { order: inputOrder() }],
    ['perKey', { order: orderPerKey(key) }],
  ] as const;
  /** Every third item is urgent. Two slots, three places; the earlier an item came the longer its call takes. */
  const full = {
    queue: lanes([{ name: 'urgent' }, { name: 'later' }], { by: (item: number) => (item % 3 === 0 ? 'urgent' : 'later') }),
    maxSize: 1,
    concurrency: 2,
    maxQueued: 3,
  } as const;
  const slower = (items: readonly number[]): Observable<readonly number[]> => timer(100 - 10 * (items[0] ?? 0)).pipe(map(() => items));

  /** Items in the order they came out, and which of them were rejected and why. */
  function outcome(out: string, reasons: readonly unknown[]) {
    const words = out.split(' ').filter((word) => /\d/.test(word));
    return {
      items: words.map((word) => Number(word.replace('!', ''))),
      rejected: words.flatMap((word) => (word.startsWith('!') ? [Number(word.slice(1))] : [])).sort((a, b) => a - b),
      codes: [...new Set(reasons.map((reason) => (reason as { code?: unknown }).code))],
    };
  }

  const isSorted = (items: readonly number[]): boolean => items.every((item, at) => at === 0 || item > (items[at - 1] as number));

  function expectOrder(order: string, items: readonly number[]): void {
    if (order === 'input') expect(isSorted(items), items.join()).toBe(true);
    if (order === 'perKey') for (const one of [0, 1]) expect(isSorted(items.filter((item) => key(item) === one)), items.join()).toBe(true);
  }

  const dropped: readonly (readonly [Exclude<Overflow, 'error'>, readonly number[]])[] = [
    ['dropNewest', [5, 6, 7, 8]],
    ['dropOldest', [2, 3, 4, 5]],
    ['dropLowest', [4, 5, 7, 8]],
    ['latest', [2, 4, 5, 7]],
  ];
  const policies = dropped.map(([policy]) => policy);

  describe.each(orders)('in the order of %s', (order, ordered) => {
    it.each(dropped)("'%s' rejects the items it drops, and settles every item once, in order", (policy, whom) => {
      const { out, reasons } = run(range(0, 9), slower, { ...full, ...ordered, overflow: policy, scheduler: atOnce() });
      const { items, rejected, codes } = outcome(out, reasons);
      expect(out.endsWith(' |')).toBe(true);
      expect([...items].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
      expect(rejected).toEqual(whom);
      expect(codes).toEqual(['FLOW_OVERFLOW']);
      expectOrder(order, items);
    });

    it.each(policies)("'%s' goes on doing so while items trickle in", (policy) => {
      const { out, reasons } = run(timer(0, 7).pipe(take(60)), (items) => timer(15 + ((items[0] ?? 0) % 4) * 20).pipe(map(() => items)), {
        ...full,
        ...ordered,
        overflow: policy,
      });
      const { items, rejected, codes } = outcome(out, reasons);
      expect(out.endsWith(' |')).toBe(true);
      expect([...items].sort((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, item) => item));
      expect(rejected.length).toBeGreaterThan(10);
      expect(rejected.length).toBeLessThan(55);
      expect(codes).toEqual(['FLOW_OVERFLOW']);
      expectOrder(order, items);
    });

    it("'error' ends with the error of the first item too many, and sends nothing more", () => {
      const { out, reasons, calls } = run(range(0, 9), slower, { ...full, ...ordered, overflow: 'error', scheduler: atOnce() });
      // Its rejection goes first, unless it has to stand in line: the error does not.
      expect(out).toBe(order === 'completion' ? '!5 #' : '#');
      expect(new Set(reasons.map((reason) => (reason as { code?: unknown }).code))).toEqual(new Set(['FLOW_OVERFLOW']));
      expect(calls).toEqual(['0:0', '0:1']);
    });
  });
});

describe('what the work answers', () => {
  const upper = (item: string): string => item.toUpperCase();
  const bad = new Error('bad');
  const rejectedAs = (code: string, ...items: string[]) => items.map(() => expect.objectContaining({ code }) as unknown);

  /** Two calls of three; the answer for the first, `a b c`, comes last. */
  const rows: readonly (readonly [string, (items: readonly string[]) => BatchResult<string>, string, readonly unknown[]])[] = [
    ['an array', (items) => items.map(upper), 'A B C D E F |', []],
    ['an array with an Error', (items) => items.map((item) => (item === 'b' ? bad : upper(item))), 'A !b C D E F |', [bad]],
    ['a Map in another order', (items) => new Map(items.map((item) => [item, upper(item)] as const).reverse()), 'A B C D E F |', []],
    [
      'a Map with an Error',
      (items) => new Map(items.map((item) => [item, item === 'b' ? (bad as never) : upper(item)])),
      'A !b C D E F |',
      [bad],
    ],
    [
      'a Map that lacks one',
      (items) => new Map(items.filter((item) => item !== 'b').map((item) => [item, upper(item)])),
      'A !b C D E F |',
      rejectedAs('FLOW_BATCH_SHAPE', 'b'),
    ],
    [
      'a Map with an unknown id',
      (items) => new Map([...items, ...(items[0] === 'a' ? ['z'] : [])].map((item) => [item, upper(item)])),
      '!a !b !c D E F |',
      rejectedAs('FLOW_BATCH_SHAPE', 'a', 'b', 'c'),
    ],
    [
      'a list of settled results',
      (items) =>
        items.map(
          (item): PromiseSettledResult<string> =>
            item === 'b' ? { status: 'rejected', reason: bad } : { status: 'fulfilled', value: upper(item) },
        ),
      'A !b C D E F |',
      [bad],
    ],
    [
      'a list of settled results that is too short',
      (items) => (items[0] === 'a' ? [{ status: 'fulfilled', value: 'A' }] : items.map(upper)),
      '!a !b !c D E F |',
      rejectedAs('FLOW_BATCH_SHAPE', 'a', 'b', 'c'),
    ],
    [
      'one result too few',
      (items) => items.slice(items[0] === 'a' ? 1 : 0).map(upper),
      '!a !b !c D E F |',
      rejectedAs('FLOW_BATCH_SHAPE', 'a', 'b', 'c'),
    ],
    [
      'one result too many',
      (items) => [...items, ...(items[0] === 'd' ? ['z'] : [])].map(upper),
      'A B C !d !e !f |',
      rejectedAs('FLOW_BATCH_SHAPE', 'd', 'e', 'f'),
    ],
    [
      'no result at all',
      (items) => (items[0] === 'a' ? [] : items.map(upper)),
      '!a !b !c D E F |',
      rejectedAs('FLOW_BATCH_SHAPE', 'a', 'b', 'c'),
    ],
  ];

  it.each(rows)('%s, in the order of the input under inputOrder()', (_shape, answer, expected, reasons) => {
    const seen = run(of('a', 'b', 'c', 'd', 'e', 'f'), (items) => timer(items[0] === 'a' ? 20 : 10).pipe(map(() => answer(items))), {
      maxSize: 3,
      concurrency: 2,
      order: inputOrder(),
      id: (item: string) => item,
      classify: classifyError,
      repair: divideAndConquer(),
    });
    expect(seen.out).toBe(expected);
    expect(seen.reasons).toEqual(reasons);
    expect(seen.calls).toEqual(['0:a b c', '0:d e f']);
  });

  it('a Map, when two items of the call have the same id, is not guessed at', () => {
    const seen = run(
      of('a', 'b', 'a', 'd'),
      (items) => timer(items[0] === 'a' ? 20 : 10).pipe(map(() => new Map(items.map((item) => [item, item])))),
      {
        maxSize: 3,
        concurrency: 2,
        order: inputOrder(),
        id: (item: string) => item,
        ...repaired,
      },
    );
    expect(seen.out).toBe('!a !b !a d |');
    expect(seen.reasons).toEqual(rejectedAs('FLOW_BATCH_SHAPE', 'a', 'b', 'a'));
  });
});

describe("unwrap('first') behind it", () => {
  const reason = new Error('no');

  it('errors with the very reason of the first item that fails for good, and aborts the rest', () => {
    const signals: AbortSignal[] = [];
    const seen = virtualTime(({ flush, now }) => {
      const out: unknown[] = [];
      of(50, 10, 5)
        .pipe(
          batchMap(
            (items: readonly number[], { signal }) => {
              signals.push(signal);
              return items[0] === 10 ? timer(10).pipe(map(() => [reason])) : sleep(items);
            },
            { maxSize: 1, concurrency: 3 },
          ),
          unwrap('first'),
        )
        .subscribe({ next: (value) => out.push(value), error: (error: unknown) => out.push(now(), error) });
      flush();
      return out;
    });
    expect(seen).toEqual([5, 10, reason]);
    expect(signals.map((signal) => signal.aborted)).toEqual([true, false, false]);
  });

  it('lets a retry go on, for that is not final', () => {
    let calls = 0;
    const work = (items: readonly number[]) =>
      calls++ === 0 ? throwError(() => Object.assign(new Error('busy'), { status: 503 })) : of(items);
    const values = virtualTime(({ flush }) => {
      const seen: unknown[] = [];
      of(1, 2)
        .pipe(batchMap(work, repaired), unwrap('first'))
        .subscribe({ next: (value) => seen.push(value), error: (error: unknown) => seen.push(error), complete: () => seen.push('|') });
      flush();
      return seen;
    });
    expect(values).toEqual([1, 2, '|']);
  });
});

describe('flush', () => {
  const slow = { window: fixed(100), maxSize: 10 } as const;

  it('sends all that waits when `flush` emits, and ends with its error', () => {
    const flush = timer(30);
    expect(run(concat(of(1, 2), NEVER), (items) => of(items), { ...slow, flush }).calls).toEqual(['30:1 2']);
    const failing = timer(30).pipe(map(() => Number.parseInt('x', 10).toFixed(200)));
    expect(run(concat(of(1, 2), NEVER), (items) => of(items), { ...slow, flush: failing }).out).toBe('#');
    const events: FlowEvent[] = [];
    run(concat(of(1), NEVER), (items) => of(items), { ...slow, flush, onEvent: (event) => events.push(event) });
    expect(events).toContainEqual(expect.objectContaining({ type: 'batchFormed', reason: 'flush', waitMs: 30 }));
  });
});

describe('oversize', () => {
  const heavy = { maxWeight: 4, weigh: (text: string) => text.length, window: natural() } as const;
  const upper = (items: readonly string[]) => of(items.map((item) => item.toUpperCase()));
  const halves = (text: string): string[] => [text.slice(0, text.length / 2), text.slice(text.length / 2)];

  it("'alone' sends it by itself, 'reject' refuses it", () => {
    const source = of('ab', 'cdefgh', 'ij');
    expect(run(source, upper, heavy).calls).toEqual(['0:ab', '0:cdefgh', '0:ij']);
    const refused = run(source, upper, { ...heavy, oversize: 'reject' });
    expect(refused.out).toBe('!cdefgh AB IJ |');
    expect(refused.reasons[0]).toMatchObject({ code: 'FLOW_ITEM_TOO_HEAVY', weight: 6, maxWeight: 4 });
  });

  it('splitItem() sends the parts like items and joins their results into one', () => {
    const joinResults = (results: readonly string[]): string => results.join('');
    const { out, calls } = run(of('ab', 'cdefgh', 'i'), upper, { ...heavy, oversize: splitItem(halves, joinResults) });
    expect(out).toBe('AB CDEFGH I |');
    expect(calls).toEqual(['0:ab', '0:cde', '0:fgh i']);
  });

  it('counts the calls an item was part of once each, and travels as one item in order', () => {
    const settled = virtualTime(({ flush }) => {
      const seen: unknown[] = [];
      of('cdefgh', 'i')
        .pipe(
          batchMap((items: readonly string[]) => upper(items).pipe(delay(10)), {
            ...heavy,
            maxWeight: 3,
            oversize: splitItem(halves, (results) => results.join('+')),
            order: inputOrder(),
          }),
        )
        .subscribe((one) => seen.push(one));
      flush();
      return seen;
    });
    expect(settled).toMatchObject([
      { input: 'cdefgh', index: 0, id: '0', attempts: 2, value: 'CDE+FGH' },
      { input: 'i', index: 1, attempts: 1, value: 'I' },
    ]);
  });

  it('rejects the whole item with the reason of the first part that fails, and gives the others up', () => {
    const reason = new Error('bad part');
    const sent: string[] = [];
    const work = (items: readonly string[]) => {
      sent.push(...items);
      return of(items.map((item) => (item === 'bad' ? reason : item))).pipe(delay(5));
    };
    const { out, reasons } = run(of('badgood', 'x'), work, {
      ...heavy,
      concurrency: 1,
      classify: classifyError,
      repair: divideAndConquer(),
      oversize: splitItem(
        () => ['bad', 'good'],
        (results) => results.join(''),
      ),
    });
    expect(out).toBe('!badgood x |');
    expect(reasons).toEqual([reason]);
    expect(sent).toEqual(['bad', 'x']);
  });

  it('refuses no parts, and results that cannot be joined', () => {
    const join = (results: readonly string[]) => results.join('');
    expect(run(of('abcdefgh'), upper, { ...heavy, oversize: splitItem(() => [], join) }).reasons).toMatchObject([
      { callback: 'splitItem.into' },
    ]);
    const cannot = (): string => {
      throw new Error('cannot');
    };
    expect(run(of('abcdef'), upper, { ...heavy, oversize: splitItem(halves, cannot) }).reasons).toMatchObject([
      { callback: 'splitItem.join' },
    ]);
  });

  it('is left whole: no part of it is sent any more', () => {
    const signals: AbortSignal[] = [];
    virtualTime(({ flush }) => {
      const batcher = createBatcher(
        (_items: readonly string[], { signal }) => {
          signals.push(signal);
          return NEVER;
        },
        {
          ...heavy,
          concurrency: 1,
          maxWeight: 3,
          oversize: splitItem(halves, String),
        },
      );
      const load = batcher.load('abcdef').subscribe();
      timer(5).subscribe(() => {
        load.unsubscribe();
        expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
      });
      flush();
    });
    expect(signals.map((signal) => signal.aborted)).toEqual([true]);
  });
});

describe('onSourceError', () => {
  const bad = new Error('bad');
  const failing = concat(
    of(1, 2),
    throwError(() => bad),
  );

  it.each(['drain', 'flush'] as const)("'%s' settles what was accepted, then errors", (onSourceError) => {
    expect(run(failing, sleep, { onSourceError, window: fixed(500) })).toMatchObject({ out: '1 2 #', reasons: [bad] });
    const pulled = virtualTime(({ flush }) => {
      const seen: unknown[] = [];
      function* items() {
        yield 1;
        yield 2;
        throw new Error('bad');
      }
      batchMapFrom(items(), sleep, { onSourceError }).subscribe({
        next: ({ input }) => seen.push(input),
        error: (error: unknown) => seen.push((error as Error).message),
      });
      flush();
      return seen;
    });
    expect(pulled).toEqual([1, 2, 'bad']);
  });

  it("'abort' stops everything at once", () => {
    expect(run(failing, sleep, { onSourceError: 'abort', scheduler: atOnce() }).out).toBe('#');
  });
});

describe('window', () => {
  it('is read again at every event, also when another job frees a slot', () => {
    const started = virtualTime(({ flush, now }) => {
      const at: number[] = [];
      const limiter = createLimiter({ concurrency: 1 });
      const lease = limiter.tryAcquire();
      concat(of('a'), NEVER)
        .pipe(
          batchMap(
            (items: readonly string[]) => {
              at.push(now());
              return of(items);
            },
            { limiter },
          ),
        )
        .subscribe();
      timer(30).subscribe(() => lease?.release());
      flush();
      return at;
    });
    // All slots in use mean 100 ms; none means none.
    expect(started).toEqual([30]);
  });

  it('gathers a trickle when only the rate is limited', () => {
    const sizes = virtualTime(({ flush, scheduler }) => {
      const seen: number[] = [];
      const limiter = createLimiter({ rates: [perMinute('requests', 600, { burst: 9 })], scheduler });
      const source = new Subject<number>();
      source
        .pipe(
          batchMap(
            (items: readonly number[]) => {
              seen.push(items.length);
              return of(items);
            },
            { limiter, scheduler },
          ),
        )
        .subscribe();
      // Twelve a second, where nine may be sent.
      timer(0, 83)
        .pipe(take(120))
        .subscribe((i) => {
          source.next(i);
        });
      timer(83 * 121).subscribe(() => {
        source.complete();
      });
      flush();
      return seen;
    });
    expect(sizes.reduce((sum, size) => sum + size)).toBe(120);
    expect(sizes.length).toBeLessThan(100);
  });

  it('tells a rule of yours how busy the limiter is', () => {
    const loads: number[] = [];
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 60, { burst: 4 })], headroom: 1 });
      limiter.tryAcquire()?.release();
      const window = ({ load }: { load: number }): number => {
        loads.push(load);
        return 0;
      };
      of(1)
        .pipe(batchMap((items: readonly number[]) => of(items), { limiter, window, scheduler: atOnce() }))
        .subscribe();
      flush();
    });
    expect(loads[0]).toBe(0.25);
  });
});
