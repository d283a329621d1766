import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { mergeMap, NEVER, Observable, of, range, Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { bulkheadMap, isFlowError } from '../../operators/index.js';
import { sized } from '../support/deep.js';
import { anything, examples, listed, TEARDOWN_FAULT, throwingTeardowns } from './merging.js';
import type { Operator } from './recording.js';
import { logOf } from './recording.js';

const theirs =
  (concurrency: number): Operator =>
  (project) =>
    mergeMap(project, concurrency);
const ours =
  (concurrency: number): Operator =>
  (project) =>
    bulkheadMap((item, { index }) => project(item, index), { concurrency, maxQueued: Infinity, errors: 'propagate' });

const rows = [1, 2, 3, Infinity].flatMap((concurrency) =>
  Object.entries(examples).map(([title, example]) => ({ title, concurrency, example })),
);

describe('bulkheadMap does what mergeMap does', () => {
  it.each(rows)('$title, concurrency $concurrency', ({ example, concurrency }) => {
    const log = logOf(example, theirs(concurrency));
    expect(log).not.toHaveLength(0);
    expect(logOf(example, ours(concurrency))).toEqual(log);
  });

  it.each([1, 2, 3, Infinity])('whatever is drawn, concurrency %d', (concurrency) => {
    fc.assert(
      fc.property(anything, (example) => {
        expect(logOf(example, ours(concurrency))).toEqual(logOf(example, theirs(concurrency)));
      }),
      { numRuns: sized(80, 250) },
    );
  });

  it('takes promises in the same turns of the microtask queue', async () => {
    const turns = async (operator: Operator): Promise<string[]> => {
      const log: string[] = [];
      let turn = 0;
      of('a', 'b', 'c', 'd')
        .pipe(operator((item) => Promise.resolve(item)))
        .subscribe({ next: (value) => log.push(`${turn} ${String(value)}`), complete: () => log.push(`${turn} complete`) });
      for (; turn < 12; turn++) await Promise.resolve();
      return log;
    };
    for (const concurrency of [1, 2, Infinity]) expect(await turns(ours(concurrency))).toEqual(await turns(theirs(concurrency)));
  });
});

/** What comes of a source of so many items whose inner streams are synchronous. */
function delivered(operator: Operator, n: number): { readonly values: number; readonly ended: boolean } {
  let values = 0;
  let ended = false;
  const subject = new Subject<string>();
  subject.pipe(operator((item) => (item === 'first' ? gate : of(item)))).subscribe({
    next: () => values++,
    error: () => undefined,
    complete: () => (ended = true),
  });
  subject.next('first');
  for (let i = 0; i < n; i++) subject.next('x');
  subject.complete();
  gate.complete();
  return { values, ended };
}
let gate = new Subject<string>();

/** Each of the differences that are meant, by the name it has on the page: throws when there is none. */
const differences: Readonly<Record<string, () => void | Promise<void>>> = {
  'many synchronous inner streams in a queue': () => {
    gate = new Subject();
    const rx = delivered(theirs(1), 20_000);
    gate = new Subject();
    expect(delivered(ours(1), 20_000)).toEqual({ values: 20_000, ended: true });
    expect(rx.values).toBeLessThan(20_000);
    expect(rx.ended).toBe(false);
  },
  'a consumer that feeds the source inside a synchronous inner stream': () => {
    const order = (operator: Operator): string => {
      const source = new Subject<string>();
      const seen: unknown[] = [];
      source.pipe(operator((item) => of(`${item}1`, `${item}2`))).subscribe((value) => {
        seen.push(value);
        if (value === 'a1') source.next('b');
      });
      source.next('a');
      return seen.join(' ');
    };
    expect(order(theirs(2))).toBe('a1 b1 b2 a2');
    expect(order(ours(2))).toBe('a1 a2 b1 b2');
  },
  'the teardown of a synchronous inner stream with others in the queue': () => {
    const order = (operator: Operator): string => {
      const log: string[] = [];
      const first = new Subject<string>();
      const source = new Subject<string>();
      const work = (item: string) =>
        item === 'first'
          ? first
          : new Observable<string>((subscriber) => {
              log.push(`start ${item}`);
              subscriber.complete();
              return () => log.push(`end ${item}`);
            });
      source.pipe(operator(work)).subscribe();
      for (const item of ['first', 'a', 'b']) source.next(item);
      first.complete();
      return log.join(', ');
    };
    expect(order(theirs(1))).toBe('start a, start b, end b, end a');
    expect(order(ours(1))).toBe('start a, end a, start b, end b');
  },
  'the second argument of `project`': () => {
    const seen: unknown[] = [];
    of('a')
      .pipe(mergeMap((_item, second) => of(seen.push(second))))
      .subscribe();
    of('a')
      .pipe(bulkheadMap((_item, second) => of(seen.push(second))))
      .subscribe();
    expect(seen).toEqual([0, expect.objectContaining({ index: 0, key: undefined })]);
  },
  'a concurrency of 0, -1 or NaN': () => {
    for (const concurrency of [0, -1, NaN]) {
      expect(delivered(theirs(concurrency), 1)).toEqual({ values: 0, ended: false });
      expect(() => ours(concurrency)(() => NEVER)).toThrow('bulkheadMap: expected `concurrency` to be');
    }
  },
  'concurrency when left out': () => {
    const started = (operator: Operator): number => {
      let count = 0;
      const subscription = range(0, 50)
        .pipe(operator(() => (count++, NEVER)) as never)
        .subscribe();
      subscription.unsubscribe();
      return count;
    };
    expect(started((project) => mergeMap(project))).toBe(50);
    expect(started((project) => bulkheadMap((item: string) => project(item, 0), { errors: 'propagate' }))).toBe(10);
  },
  'what the teardown of an inner stream throws': async () => {
    const toldWhoLeaves = { name: 'UnsubscriptionError', errors: [TEARDOWN_FAULT] };
    expect(await throwingTeardowns(theirs(1))).toMatchObject({ thrown: toldWhoLeaves, values: ['a'] });
    expect(await throwingTeardowns(ours(1))).toMatchObject({ thrown: toldWhoLeaves, values: ['a', 'b'], unhandled: [toldWhoLeaves] });
  },
  'a bound for the queue': () => {
    const failure = (operator: Operator): unknown => {
      let failed: unknown;
      const subscription = range(0, 5000)
        .pipe(operator(() => NEVER) as never)
        .subscribe({ error: (error: unknown) => (failed = error) });
      subscription.unsubscribe();
      return failed;
    };
    expect(failure((project) => mergeMap(project, 1))).toBeUndefined();
    const one = { concurrency: 1, errors: 'propagate' } as const;
    expect(failure((project) => bulkheadMap((item: string) => project(item, 0), one))).toBeUndefined();
    const refused = failure((project) => bulkheadMap((item: string) => project(item, 0), { ...one, maxQueued: 1000 }));
    expect(isFlowError(refused, 'FLOW_OVERFLOW')).toBe(true);
  },
  'the result selector': () => {
    const seen: unknown[] = [];
    of('a')
      .pipe(
        // eslint-disable-next-line @typescript-eslint/no-deprecated -- that it is there is the point
        mergeMap(
          (item) => of(`${item}!`),
          (outer, inner) => `${outer} ${inner}`,
        ),
      )
      .subscribe((value) => seen.push(value));
    expect(seen).toEqual(['a a!']);
    expect(() => bulkheadMap(() => NEVER, (() => 'a') as never)).toThrow('bulkheadMap: expected `options` to be an object');
  },
};

describe('bulkheadMap differs from mergeMap on purpose', () => {
  it('in what the page lists, and nothing else', () => {
    const page = readFileSync(new URL('../../docs/rxjs-parity.md', import.meta.url), 'utf8');
    expect(listed(page, 'bulkheadMap and mergeMap')).toEqual(Object.keys(differences));
  });

  it.each(Object.entries(differences))('%s', async (_name, check) => {
    expect.hasAssertions();
    await check();
  });
});
