import { isDeepStrictEqual } from 'node:util';
import type { Observable } from 'rxjs';
import { defer, from, interval, map, merge, mergeMap, NEVER, of, takeUntil, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { draw, record, runSpec } from '../../marbles/index.js';
import type { SpecKit } from '../../marbles/spec.js';
import { marbleMatchers } from '../../marbles/vitest.js';
import { batchMap, bulkheadMap, createLimiter, fromStream, switchLatest } from '../../operators/index.js';

expect.extend(marbleMatchers);

type Build = (kit: SpecKit) => Observable<unknown>;

async function* twoLater(): AsyncGenerator<string> {
  yield await Promise.resolve('x');
  yield 'y';
}

const PROMISED: readonly (readonly [string, Build])[] = [
  [
    'batchMap over an async function',
    ({ input }) => input('source').pipe(batchMap(async (all: readonly string[]) => [...all], { maxSize: 1 })),
  ],
  ['switchLatest over an async function', ({ input }) => input('source').pipe(switchLatest(async (one: string) => one.toUpperCase()))],
  [
    'bulkheadMap over a promise that never settles',
    ({ input }) => input('source').pipe(bulkheadMap(() => new Promise<string>(() => undefined))),
  ],
  [
    'bulkheadMap over a thenable',
    ({ input }) => input('source').pipe(bulkheadMap(() => ({ then: () => undefined }) as unknown as Promise<string>)),
  ],
  ['an operator of RxJS over a promise', ({ input }) => input('source').pipe(mergeMap((one) => Promise.resolve(one)))],
  ['a promise as the stream', () => defer(() => Promise.resolve('x'))],
  ['an async iterable', ({ input }) => input('source').pipe(mergeMap(() => from(twoLater())))],
  ['fromStream', () => fromStream(() => twoLater())],
  [
    'a limiter that runs a promise',
    ({ input }) => {
      const limiter = createLimiter({ concurrency: 1 });
      return input('source').pipe(mergeMap((one) => limiter.run(() => Promise.resolve(one))));
    },
  ],
];

const inputs = { source: '-a-b-c---|' };
const SAYS = /pipeline waits for a promise at \d+ ms of virtual time.*Let the work answer an Observable/s;

describe.each(PROMISED)('a marble run of %s', (_name, build) => {
  it.each(['-x-y-z---|', '---------|', '-'])('fails as a spec that expects %s', (expected) => {
    expect(() => runSpec({ inputs, expected, build }, isDeepStrictEqual)).toThrow(SAYS);
    expect(() => runSpec({ inputs, expected, build }, () => true)).toThrow(SAYS);
  });

  it('is neither recorded nor drawn', () => {
    expect(() => record({ inputs, build })).toThrow(SAYS);
    expect(() => draw({ inputs, build })).toThrow(SAYS);
  });

  it('fails with the matchers, also negated', () => {
    expect(() => {
      expect(build).toMatchMarbles({ inputs, expected: '---------|' });
    }).toThrow(SAYS);
    expect(() => {
      expect(build).not.toMatchMarbles({ inputs, expected: '---------|' });
    }).toThrow(SAYS);
    expect(() => {
      expect(build).toLeaveNothing({ inputs });
    }).toThrow(SAYS);
    expect(() => {
      expect(build).not.toLeaveNothing({ inputs });
    }).toThrow(SAYS);
  });
});

it('ends a run whose timers would wait for a promise for ever', () => {
  const build: Build = ({ input }) =>
    merge(interval(10).pipe(takeUntil(from(new Promise(() => undefined)))), input('source').pipe(mergeMap(() => NEVER)));
  expect(() => record({ inputs, build })).toThrow(SAYS);
});

it('says when, and which line waits', () => {
  const build: Build = ({ input }) => input('source').pipe(switchLatest(async (one: string) => one));
  expect(() =>
    runSpec({ operator: 'mine', title: 'answers', inputs: { source: '---a|' }, expected: '-', build }, isDeepStrictEqual),
  ).toThrow(/^mine: answers\nthe pipeline waits for a promise at 3 ms of virtual time \(at .+:\d+:\d+\)+\./);
});

it('leaves promises alone when the run is over, however it ended', async () => {
  const { then } = Promise.prototype;
  expect(() => record({ inputs, build: () => from(Promise.resolve(1)) })).toThrow(SAYS);
  expect(() =>
    record({
      inputs,
      build: () => {
        throw new Error('mine');
      },
    }),
  ).toThrow('mine');
  expect(Promise.prototype.then).toBe(then);
  expect(await Promise.resolve(1).then((one) => one + 1)).toBe(2);
});

it('does not mind a promise that nothing waits for, nor work that answers Observables', () => {
  const build: Build = ({ input }) =>
    input('source').pipe(
      switchLatest((one: string) => {
        Promise.reject(new Error('unread')).catch(() => undefined);
        return timer(1).pipe(
          mergeMap(() => of(one)),
          map((letter) => letter.toUpperCase()),
        );
      }),
    );
  expect(
    runSpec({ inputs, expected: '--x-y-z--|', values: { x: 'A', y: 'B', z: 'C', a: 'a', b: 'b', c: 'c' }, build }, isDeepStrictEqual)
      .leftBehind,
  ).toBe(0);
});
