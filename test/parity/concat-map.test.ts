import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { concatMap, NEVER, of, range, Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { bulkheadMap, isFlowError } from '../../operators/index.js';
import { sized } from '../support/deep.js';
import { anything, examples, listed, TEARDOWN_FAULT, throwingTeardowns } from './merging.js';
import type { Operator } from './recording.js';
import { logOf } from './recording.js';

const theirs: Operator = (project) => concatMap(project);
const ours: Operator = (project) =>
  bulkheadMap((item, { index }) => project(item, index), { key: () => 0, perKey: 1, maxQueued: Infinity, errors: 'propagate' });

const rows = Object.entries(examples).flatMap(([title, example]) => [
  { title, example },
  { title: `${title}, left after 5 ms`, example: { ...example, leavesAt: 5 } },
]);

describe('bulkheadMap with one per key does what concatMap does', () => {
  it.each(rows)('$title', ({ example }) => {
    const log = logOf(example, theirs);
    expect(log).not.toHaveLength(0);
    expect(logOf(example, ours)).toEqual(log);
  });

  it('whatever is drawn', () => {
    fc.assert(
      fc.property(anything, (example) => {
        expect(logOf(example, ours)).toEqual(logOf(example, theirs));
      }),
      { numRuns: sized(150, 500) },
    );
  });

  it('takes promises in the same turns of the microtask queue', async () => {
    const turns = async (operator: Operator): Promise<string[]> => {
      const log: string[] = [];
      let turn = 0;
      of('a', 'b', 'c')
        .pipe(operator((item) => Promise.resolve(item)))
        .subscribe({ next: (value) => log.push(`${turn} ${String(value)}`), complete: () => log.push(`${turn} complete`) });
      for (; turn < 12; turn++) await Promise.resolve();
      return log;
    };
    expect(await turns(ours)).toEqual(await turns(theirs));
  });
});

/** Each of the differences that are meant, by the name it has on the page: throws when there is none. */
const differences: Readonly<Record<string, () => void | Promise<void>>> = {
  'many synchronous inner streams in a queue': () => {
    const delivered = (operator: Operator) => {
      let values = 0;
      let ended = false;
      const first = new Subject<string>();
      const source = new Subject<string>();
      source.pipe(operator((item) => (item === 'first' ? first : of(item)))).subscribe({
        next: () => values++,
        error: () => undefined,
        complete: () => (ended = true),
      });
      source.next('first');
      for (let i = 0; i < 20_000; i++) source.next('x');
      source.complete();
      first.complete();
      return { values, ended };
    };
    expect(delivered(ours)).toEqual({ values: 20_000, ended: true });
    const rx = delivered(theirs);
    expect(rx.values).toBeLessThan(20_000);
    expect(rx.ended).toBe(false);
  },
  'what the teardown of an inner stream throws': async () => {
    const toldWhoLeaves = { name: 'UnsubscriptionError', errors: [TEARDOWN_FAULT] };
    expect(await throwingTeardowns(theirs)).toMatchObject({ thrown: toldWhoLeaves, values: ['a'] });
    expect(await throwingTeardowns(ours)).toMatchObject({ thrown: toldWhoLeaves, values: ['a', 'b'], unhandled: [toldWhoLeaves] });
  },
  'a key': () => {
    const order = (operator: Operator): string => {
      const streams: Readonly<Record<string, Subject<string>>> = { a: new Subject(), B: new Subject() };
      const seen: unknown[] = [];
      of('a', 'B')
        .pipe(operator((item) => streams[item] ?? NEVER))
        .subscribe((value) => seen.push(value));
      streams['B']?.next('B first');
      streams['a']?.next('a first');
      return seen.join();
    };
    expect(order(theirs)).toBe('a first');
    const byItem: Operator = (project) =>
      bulkheadMap((item, { index }) => project(item, index), { key: (item) => item, perKey: 1, errors: 'propagate' });
    expect(order(byItem)).toBe('B first,a first');
  },
  'the second argument of `project`': () => {
    const seen: unknown[] = [];
    of('a')
      .pipe(concatMap((_item, second) => of(seen.push(second))))
      .subscribe();
    const key = (item: string): string => item;
    of('a')
      .pipe(bulkheadMap((_item, second) => of(seen.push(second)), { key, perKey: 1 }))
      .subscribe();
    expect(seen).toEqual([0, expect.objectContaining({ index: 0, key: 'a' })]);
  },
  'what comes out when nothing is said about errors': () => {
    const seen: unknown[] = [];
    of('a')
      .pipe(concatMap((item) => of(item, `${item}!`)))
      .subscribe((value) => seen.push(value));
    of('a')
      .pipe(bulkheadMap((item) => of(item, `${item}!`), { key: (item: string) => item, perKey: 1 }))
      .subscribe((value) => seen.push(value));
    expect(seen).toEqual(['a', 'a!', { status: 'fulfilled', value: 'a!', input: 'a', index: 0, id: '0', attempts: 1 }]);
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
    expect(failure(theirs)).toBeUndefined();
    const serial =
      (options: { readonly maxQueued?: number }): Operator =>
      (project) =>
        bulkheadMap((item, { index }) => project(item, index), { key: () => 0, perKey: 1, ...options, errors: 'propagate' });
    expect(failure(serial({}))).toBeUndefined();
    expect(isFlowError(failure(serial({ maxQueued: 1000 })), 'FLOW_OVERFLOW')).toBe(true);
  },
};

describe('bulkheadMap with one per key differs from concatMap on purpose', () => {
  it('in what the page lists, and nothing else', () => {
    const page = readFileSync(new URL('../../docs/rxjs-parity.md', import.meta.url), 'utf8');
    expect(listed(page, 'bulkheadMap and concatMap')).toEqual(Object.keys(differences));
  });

  it.each(Object.entries(differences))('%s', async (_name, check) => {
    expect.hasAssertions();
    await check();
  });
});
