import fc from 'fast-check';
import { config, EMPTY, NEVER, Observable, of, Subject, throwError } from 'rxjs';
import type { Example, Operator } from './recording.js';

const fault = 'the fault';
const three = { a: '-x--y-|', b: '---z|', c: 'u-v-w-|' };

/** What the pages and spec files of both operators show, as marbles. */
export const examples: Readonly<Record<string, Example>> = {
  'one item, one value': { source: '-a|', inners: { a: '-x|' } },
  'every item with three values': { source: '-a---b---c|', inners: three },
  'a burst': { source: '-(abc)|', inners: three },
  'the same inner stream again and again': { source: '-a-a-a-a|', inners: { a: '-x-y-z|' } },
  'a source that is done long before its inner streams': { source: 'abc|', inners: { a: '------x---|', b: '--y---|', c: '-z-----|' } },
  'a source that ends with its last inner stream': { source: '-a----|', inners: { a: '-x--y|' } },
  'a source that never emits': { source: '-' },
  'a source that is empty': { source: '|' },
  'a source that is empty after a while': { source: '----|' },
  'a source that fails at once': { source: '#' },
  'a source that fails while inner streams run': { source: '-a-b--#', inners: { a: '-x-x-x-x-|', b: '-y-y-y-y|' } },
  'a source that fails with some waiting': { source: '-(abcd)--#', inners: { a: '-x-------|', b: '--y------|', c: '-z|', d: '-w|' } },
  'a source that never ends': { source: '-a-b-c', inners: three },
  'an inner stream that never ends': { source: '-a-b-c-|', inners: { a: '-x-', b: '-y|', c: '-z|' } },
  'inner streams that never emit': { source: '-a-b|', inners: { a: '-', b: '-' } },
  'inner streams that are empty': { source: '-a-b-c|', inners: { a: '|', b: '--|', c: '-|' } },
  'inner streams that emit and end in one frame': { source: '-a-b-c|', inners: { a: '(xy|)', b: '(z|)', c: 'u(vw|)' } },
  'an inner stream that fails': { source: '-a-b-c-|', inners: { a: '-x----x--|', b: '-y-#', c: '-z---z|' } },
  'an inner stream that fails with some waiting': { source: '-(abcd)-|', inners: { a: '-x-----|', b: '--#', c: '-z|', d: '-w|' } },
  'an inner stream that fails at once': { source: '-a-b|', inners: { a: '---x|', b: '#' } },
  'the last inner stream fails': { source: '-a-b|', inners: { a: '-x|', b: '-----#' } },
  'two inner streams that fail in one frame': { source: '-a-b|', inners: { a: '----#', b: '--#' } },
  'a consumer that leaves': { source: '-a-b-c-d|', inners: { a: '-x-----|', b: '--y----|', c: '-z|', d: '-w|' }, leavesAt: 6 },
  'a consumer that leaves before the first item': { source: '---a|', inners: { a: '-x|' }, leavesAt: 2 },
  'a consumer that leaves in the frame of the end': { source: '-a|', inners: { a: '-x--|' }, leavesAt: 5 },
  'a consumer that leaves at a value': { source: '-a-b-c|', inners: { a: '-x-y-|', b: '-z-w-|', c: '-u|' }, leavesOn: 'z' },
  'a consumer that leaves at the last value': { source: '-a|', inners: { a: '-x(y|)' }, leavesOn: 'y' },
  'a hot source': { source: '-a-^-b--c-d-|', inners: { b: '-x---|', c: '-y---|', d: '-z|' }, isHot: true },
  'a hot source that fails': { source: '-a-^-b--c-#', inners: { b: '-x------|', c: '-y---|' }, isHot: true },
  'a project that throws': {
    source: '-a-b-c|',
    project: (item) => {
      if (item === 'b') throw new Error(fault);
      return NEVER;
    },
  },
  'a project that throws at the first item': {
    source: '-a-b|',
    project: () => {
      throw new Error(fault);
    },
  },
  'a project that answers nonsense': { source: '-a|', project: () => 5 as never },
  'a project that answers nothing': { source: '-a|', project: () => undefined as never },
  arrays: { source: '-a--b|', project: (item) => [item, item + item] },
  'an array that is empty': { source: '-a--b|', project: () => [] },
  'a text, which is iterable': { source: '-a|', project: (item) => `${item}bc` },
  'a generator': {
    source: '-a--b|',
    *project(item: string) {
      yield item;
      yield `${item}!`;
    },
  },
  'a synchronous stream': { source: '-a--b--c|', project: (item) => of(item, `${item}!`) },
  'a consumer that leaves inside a synchronous stream': {
    source: '-a--b--c|',
    project: (item) => of(item, `${item}!`, `${item}?`),
    leavesOn: 'b!',
  },
  'a synchronous failure': { source: '-a--b|', project: (item) => (item === 'a' ? of(1) : throwError(() => new Error(fault))) },
  EMPTY: { source: '-a--b|', project: () => EMPTY },
  NEVER: { source: '-a--b|', project: () => NEVER, leavesAt: 9 },
  'the number of the item': { source: '-a-b-c|', project: (item, index) => of(`${item}${index}`) },
};

const end = fc.constantFrom('|', '|', '|', '#', '');
const inner = fc
  .tuple(fc.array(fc.constantFrom('-', '-', 'x', 'y', 'z', '(xy)'), { maxLength: 7 }), end)
  .map(([marbles, last]) => (marbles.join('') + last === '' ? '-' : marbles.join('') + last));

/** Anything that can be drawn: up to eight items, four different inner streams, a consumer that may leave. */
export const anything: fc.Arbitrary<Example> = fc.record(
  {
    source: fc
      .tuple(fc.array(fc.constantFrom('-', '-', 'a', 'b', 'c', 'd', '(ab)', '(acd)'), { maxLength: 10 }), end)
      .map(([marbles, last]) => (marbles.join('') + last === '' ? '-' : marbles.join('') + last)),
    inners: fc.record({ a: inner, b: inner, c: inner, d: inner }),
    leavesAt: fc.nat({ max: 30 }),
    leavesOn: fc.constantFrom('x', 'y', 'z'),
  },
  { requiredKeys: ['source', 'inners'] },
);

/** The first column of the table under a heading of a page. */
export function listed(page: string, heading: string): string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/^\| ([^|]+?) +\|/gm)].map(([, cell = '']) => cell).slice(2);
}

export const TEARDOWN_FAULT = new Error('teardown');

/** Inner streams whose teardown throws: what a consumer that leaves one is told, and what comes out, and is unhandled, when the first of two ends by itself. */
export async function throwingTeardowns(operator: Operator): Promise<{ thrown: unknown; values: unknown[]; unhandled: unknown[] }> {
  const inner = (item: string, ends: boolean): Observable<string> =>
    new Observable((subscriber) => {
      if (item === 'a')
        subscriber.add(() => {
          throw TEARDOWN_FAULT;
        });
      if (!ends) return;
      subscriber.next(item);
      subscriber.complete();
    });
  const values: unknown[] = [];
  const unhandled: unknown[] = [];
  let thrown: unknown;
  const before = config.onUnhandledError;
  config.onUnhandledError = (error) => unhandled.push(error);
  try {
    const left = new Subject<string>();
    const subscription = left.pipe(operator((item) => inner(item, false))).subscribe();
    left.next('a');
    try {
      subscription.unsubscribe();
    } catch (error) {
      thrown = error;
    }
    const source = new Subject<string>();
    source.pipe(operator((item) => inner(item, true))).subscribe((value) => values.push(value));
    source.next('a');
    source.next('b');
    // Unhandled errors are told on a timer.
    await new Promise((resolve) => setTimeout(resolve, 5));
  } finally {
    config.onUnhandledError = before;
  }
  return { thrown, values, unhandled };
}
