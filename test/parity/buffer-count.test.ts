import fc from 'fast-check';
import type { OperatorFunction } from 'rxjs';
import { bufferCount, config, EMPTY, mergeMap, NEVER, Observable, of, range, Subject, take, throwError } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
import { describe, expect, it } from 'vitest';
import { batch } from '../../operators/index.js';
import { sized } from '../support/deep.js';

type Gather = <T>(size: number) => OperatorFunction<T, T[]>;

const theirs: Gather = (size) => bufferCount(size);
const ours: Gather = (size) => batch({ maxSize: size, maxWaitMs: Infinity, onSourceError: 'abort' });

interface Example {
  readonly source: string;
  readonly size: number;
  /** The frame in which the consumer leaves. */
  readonly leavesAt?: number;
  /** Leaves with this batch, from inside `next`. */
  readonly leavesOn?: number;
  readonly isHot?: boolean;
}

/** Everything that happens, in the order it happens: subscriptions, values, ends and teardowns, each with its frame. */
function logOf({ source, size, leavesAt, leavesOn, isHot = false }: Example, gather: Gather): string[] {
  const log: string[] = [];
  const scheduler = new TestScheduler(() => true);
  const say = (what: string): void => {
    log.push(`${String(scheduler.frame)} ${what}`);
  };
  scheduler.run(({ cold, hot, flush }) => {
    const input = isHot ? hot(source) : cold(source);
    const watched = new Observable<string>((subscriber) => {
      say('subscribe');
      subscriber.add(() => {
        say('leave');
      });
      subscriber.add(input.subscribe(subscriber));
    });
    let batches = 0;
    const subscription = watched
      .pipe(
        gather(size),
        // Another operator behind it must not break the chain of subscriptions.
        mergeMap((items) => of(items)),
      )
      .subscribe({
        next: (items) => {
          say(`next ${items.join('')}`);
          if (++batches === leavesOn) subscription.unsubscribe();
        },
        error: (error: unknown) => {
          say(`error ${String(error)}`);
        },
        complete: () => {
          say('complete');
        },
      });
    subscription.add(() => {
      say('tear down');
    });
    if (leavesAt !== undefined) {
      scheduler.schedule(() => {
        subscription.unsubscribe();
      }, leavesAt);
    }
    flush();
  });
  return log;
}

const cases: Readonly<Record<string, Example>> = {
  'a source that never emits': { source: '------', size: 2 },
  'an empty source': { source: '|', size: 2 },
  'an empty source that ends later': { source: '-----|', size: 2 },
  'one item': { source: '--a--|', size: 2 },
  'an exact multiple': { source: '-a-b-c-d-|', size: 2 },
  'a remainder': { source: '-a-b-c-d-e-|', size: 2 },
  'a remainder of a burst': { source: '(abcde|)', size: 2 },
  'a last batch that is full when the source ends with it': { source: '-a-(b|)', size: 2 },
  'batches of one': { source: '-a-b-(cd)|', size: 1 },
  'more than there is': { source: '-a-b-|', size: 9 },
  'an error at once': { source: '#', size: 2 },
  'an error in an open batch': { source: '-a-b-c-#', size: 2 },
  'an error between two batches': { source: '-a-b-#', size: 2 },
  'a consumer that leaves an open batch': { source: '-a-b-c-d-e-|', size: 2, leavesAt: 6 },
  'a consumer that leaves with a batch': { source: '-a-b-c-d-e-|', size: 2, leavesOn: 1 },
  'a consumer that leaves with the last batch': { source: '-a-b-c-|', size: 2, leavesOn: 2 },
  'a hot source': { source: '-a-^-b-c-d-|', size: 2, isHot: true },
  'a hot source that is left': { source: '-a-^-b-c-d-e-f-|', size: 3, isHot: true, leavesAt: 8 },
};

describe('batch({ maxSize }) as bufferCount', () => {
  it.each(Object.entries(cases))('%s', (_name, example) => {
    const log = logOf(example, ours);
    expect(log).toEqual(logOf(example, theirs));
    expect(log.length).toBeGreaterThan(0);
  });

  it('on marbles of any kind', () => {
    const marbles = fc.tuple(
      fc.array(fc.constantFrom('a', 'b', '-', '--', '(ab)', '(abc)'), { maxLength: 20 }),
      fc.constantFrom('|', '#', '-', '(c|)', '(c#)'),
    );
    fc.assert(
      fc.property(
        marbles,
        fc.integer({ min: 1, max: 4 }),
        fc.option(fc.integer({ min: 0, max: 30 }), { nil: undefined }),
        fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined }),
        ([parts, end], size, leavesAt, leavesOn) => {
          const example: Example = {
            source: parts.join('') + end,
            size,
            ...(leavesAt !== undefined && { leavesAt }),
            ...(leavesOn !== undefined && { leavesOn }),
          };
          expect(logOf(example, ours)).toEqual(logOf(example, theirs));
        },
      ),
      { numRuns: sized(100, 300), seed: 7 },
    );
  });

  it.each([
    ['of', of(1, 2, 3)],
    ['EMPTY', EMPTY],
    ['NEVER', NEVER],
    ['an error', throwError(() => new Error('bad'))],
  ])('%s, without a clock', (_name, source: Observable<number>) => {
    const log = (gather: Gather): unknown[] => {
      const seen: unknown[] = [];
      source
        .pipe(gather(2))
        .subscribe({ next: (items) => seen.push(items), error: (e: unknown) => seen.push(e), complete: () => seen.push('end') });
      return seen;
    };
    expect(log(ours)).toEqual(log(theirs));
  });

  it('stops a synchronous source when the consumer has enough', () => {
    const taken = (gather: Gather): number => {
      let produced = 0;
      const source = new Observable<number>((subscriber) => {
        while (!subscriber.closed && produced < 1000) subscriber.next(produced++);
      });
      source.pipe(gather(2), take(3)).subscribe();
      return produced;
    };
    expect(taken(ours)).toBe(6);
    expect(taken(ours)).toBe(taken(theirs));
  });

  it('hands on what a consumer feeds into the source, and the end it causes', () => {
    const log = (gather: Gather): unknown[] => {
      const source = new Subject<number>();
      const seen: unknown[] = [];
      source.pipe(gather(2)).subscribe({
        next: (items) => {
          seen.push(items);
          if (items.length === 2 && (items[1] as number) < 6) for (const item of items) source.next(item + 2);
          else source.complete();
        },
        complete: () => seen.push('end'),
      });
      source.next(1);
      source.next(2);
      return seen;
    };
    expect(log(ours)).toEqual([[1, 2], [3, 4], [5, 6], 'end']);
    expect(log(ours)).toEqual(log(theirs));
  });
});

describe('deliberate differences from bufferCount', () => {
  const error = (gather: OperatorFunction<number, number[]>): unknown[] => {
    const seen: unknown[] = [];
    new Observable<number>((subscriber) => {
      subscriber.next(1);
      subscriber.error('bad');
    })
      .pipe(gather)
      .subscribe({ next: (items) => seen.push(items), error: (reason: unknown) => seen.push(reason) });
    return seen;
  };

  it('emits the open batch before an error', () => {
    expect(error(bufferCount(2))).toEqual(['bad']);
    expect(error(batch({ maxSize: 2 }))).toEqual([[1], 'bad']);
    expect(error(batch({ maxSize: 2, onSourceError: 'abort' }))).toEqual(['bad']);
  });

  it('does not make an item wait longer than 20 ms unless told to', () => {
    new TestScheduler((actual, expected) => {
      expect(actual).toEqual(expected);
    }).run(({ cold, expectObservable }) => {
      const source = cold('a-- 30ms (b|)');
      expectObservable(source.pipe(bufferCount(2))).toBe('33ms (x|)', { x: ['a', 'b'] });
    });
    new TestScheduler((actual, expected) => {
      expect(actual).toEqual(expected);
    }).run(({ cold, expectObservable }) => {
      const source = cold('a-- 30ms (b|)');
      expectObservable(source.pipe(batch({ maxSize: 2 }))).toBe('20ms x 12ms (y|)', { x: ['a'], y: ['b'] });
    });
  });

  it('does not recurse when a consumer feeds the source', async () => {
    const feed = (gather: OperatorFunction<number, number[]>): number => {
      const source = new Subject<number>();
      let batches = 0;
      source.pipe(gather).subscribe(() => {
        if (++batches < 100_000) source.next(batches);
      });
      source.next(0);
      return batches;
    };
    // Whatever a full stack makes RxJS report, it reports in a turn of its own.
    config.onUnhandledError = () => undefined;
    expect(feed(bufferCount(1))).toBeLessThan(100_000);
    expect(feed(batch({ maxSize: 1 }))).toBe(100_000);
    await new Promise((resolve) => setTimeout(resolve));
    config.onUnhandledError = null;
  });

  it('refuses a size that is no count', () => {
    for (const size of [0, -1, NaN, 1.5]) {
      expect(() => range(1, 3).pipe(bufferCount(size))).not.toThrow();
      expect(() => batch({ maxSize: size })).toThrow('expected `maxSize` to be a whole number >= 1 or Infinity');
    }
  });
});
