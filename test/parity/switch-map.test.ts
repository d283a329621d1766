import fc from 'fast-check';
import { EMPTY, NEVER, Observable, of, range, Subject, switchMap, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { FlowConfigError, switchLatest } from '../../operators/index.js';
import { sized } from '../support/deep.js';
import { unstamped } from '../support/events.js';
import type { Example, Operator } from './recording.js';
import { logOf } from './recording.js';

const theirs: Operator = (project) => switchMap(project);
const ours: Operator = (project) => switchLatest((item, { index }) => project(item, index));

const fault = new Error('the fault');

const table: Readonly<Record<string, Example>> = {
  'one item, one value': { source: '-a|', inners: { a: '-1|' } },
  'maps every item to three values': { source: '-a--b--c|', inners: { a: '123|', b: '456|', c: '789|' } },
  'switches between cold calls': { source: '-a---b---|', inners: { a: '--1-2-3-4-|', b: '--5-6-7-|' } },
  'switches in the frame of a value': { source: '-a---b-----|', inners: { a: '-1--2--3|', b: '-4|' } },
  'switches in the frame the call completes': { source: '-a--b----|', inners: { a: '-1-|', b: '-2|' } },
  'switches in the frame the call errors': { source: '-a--b----|', inners: { a: '-1-#', b: '-2|' } },
  'a hot source': { source: '-a---b---c|', inners: { a: '--1--2|', b: '-3--4|', c: '5|' }, isHot: true },
  'a hot source that started before': { source: '-a-^--b---|', inners: { a: '1|', b: '--2|' }, isHot: true },
  'a hot source that errors': { source: '--a--#', inners: { a: '-1-----2|' }, isHot: true },
  'an empty source': { source: '|' },
  'an empty source, later': { source: '----|' },
  'a source that never emits': { source: '-', leavesAt: 20 },
  'a source that errors at once': { source: '#' },
  'a source that errors later': { source: '---#' },
  'a source that errors while a call runs': { source: '-a---#', inners: { a: '-1-2-3-4|' } },
  'a source that errors after the call has ended': { source: '-a----#', inners: { a: '-1|' } },
  'a source that completes while a call runs': { source: '-a|', inners: { a: '---1--2|' } },
  'a source that completes with the call': { source: '-a---|', inners: { a: '-1--|' } },
  'a source that completes after the call': { source: '-a------|', inners: { a: '-1|' } },
  'a source that completes in the frame of its last item': { source: '-a-(b|)', inners: { a: '-1-2|', b: '-3|' } },
  'several items in one frame': { source: '-(abc)---|', inners: { a: '1-2|', b: '3-4|', c: '5-6|' } },
  'several items in the first frame': { source: '(abc|)', inners: { a: '-1|', b: '-2|', c: '-3|' } },
  'the same call twice': { source: '-a--a--|', inners: { a: '-1-2-3|' } },
  'a call that is empty': { source: '-a--b-|', inners: { a: '|', b: '-1|' } },
  'calls that are all empty': { source: '-a--b-|', inners: { a: '|', b: '--|' } },
  'an empty call, then one that never ends': { source: '-a--b-|', inners: { a: '|', b: '-' }, leavesAt: 30 },
  'a call that never ends, then an empty one': { source: '-a--b-|', inners: { a: '-', b: '|' } },
  'calls that never end': { source: '-a--b-|', inners: { a: '-1-', b: '-2-' }, leavesAt: 30 },
  'a call that errors at once': { source: '-a--b-|', inners: { a: '#', b: '-1|' } },
  'a call that errors later': { source: '-a----b-|', inners: { a: '-1-#', b: '-2|' } },
  'a second call that errors': { source: '-a---b-----|', inners: { a: '-1-2-3|', b: '-4#' } },
  'an empty call, then one that errors': { source: '-a---b-----|', inners: { a: '|', b: '#' } },
  'a call that never ends, then one that errors': { source: '-a---b-----|', inners: { a: '-', b: '---#' } },
  'a call that errors after the source has completed': { source: '-a|', inners: { a: '----#' } },
  'the consumer leaves before the first item': { source: '---a--|', inners: { a: '-1|' }, leavesAt: 1 },
  'the consumer leaves while a call runs': { source: '-a------|', inners: { a: '-1-2-3|' }, leavesAt: 4 },
  'the consumer leaves while the second call runs': { source: '-a---b----|', inners: { a: '-1-2-3|', b: '-4-5-6|' }, leavesAt: 8 },
  'the consumer leaves between calls': { source: '-a-----b|', inners: { a: '-1|', b: '2|' }, leavesAt: 5 },
  'the consumer leaves after the source has completed': { source: '-a|', inners: { a: '--1--2--3|' }, leavesAt: 6 },
  'the consumer leaves at a value': { source: '-a---b|', inners: { a: '-1-2-3|', b: '4|' }, leavesOn: '2' },
  'the consumer leaves at a value of the second call': { source: '-a--b|', inners: { a: '-1-2-3|', b: '-4-5|' }, leavesOn: '4' },
  'synchronous calls': { source: '-a--b--|', project: (item) => of(`${item}1`, `${item}2`) },
  'synchronous calls in one frame': { source: '(abc|)', project: (item) => of(`${item}1`, `${item}2`) },
  'a synchronous call that errors': { source: '-a--b--|', project: () => throwError(() => fault) },
  'a synchronous empty call': { source: '-a--b--|', project: () => EMPTY },
  'the consumer leaves inside a synchronous call': { source: '-a--b--|', project: () => range(0, 5), leavesOn: '2' },
  'calls that are arrays': { source: '-a--b--|', project: (item) => [`${item}1`, `${item}2`] },
  'calls that are strings': { source: '-a--b--|', project: (item) => `${item}xyz` },
  'calls that are iterables': { source: '-a--b--|', project: (item) => new Set([`${item}1`, `${item}2`]) },
  'a call that is no stream': { source: '-a--b--|', project: () => 5 as never },
  'a project that throws': {
    source: '-a--b--|',
    project: () => {
      throw fault;
    },
  },
  'a project that throws later': {
    source: '-a--b--c-|',
    project: (item) => {
      if (item === 'b') throw fault;
      return NEVER;
    },
  },
  'a project that uses the index': { source: '-a-b-c|', project: (item, index) => of(`${item}${String(index)}`) },
};

describe('switchLatest, configured as switchMap', () => {
  it('is compared on more than 40 examples', () => {
    expect(Object.keys(table).length).toBeGreaterThanOrEqual(40);
  });

  it.each(Object.entries(table))('does the same for %s', (_title, example) => {
    const log = logOf(example, ours);
    expect(log[0]).toBe('0 subscribe source');
    expect(log).toEqual(logOf(example, theirs));
  });

  it('does the same for any marbles', () => {
    const ticks = fc.array(fc.constantFrom('-', '-', '1', '2', '3'), { maxLength: 8 }).map((marks) => marks.join(''));
    const inner = fc.tuple(ticks, fc.constantFrom('|', '|', '#', '-')).map(([marks, end]) => marks + end);
    const items = fc.array(fc.constantFrom('-', '-', 'a', 'b', 'c', '(ab)', '(bc)'), { maxLength: 8 }).map((marks) => marks.join(''));
    const example = fc.record({
      source: fc.tuple(items, fc.constantFrom('|', '|', '#', '-')).map(([marks, end]) => marks + end),
      inners: fc.record({ a: inner, b: inner, c: inner }),
      isHot: fc.boolean(),
      leavesAt: fc.integer({ min: 0, max: 30 }),
      leavesOn: fc.constantFrom('1', '2', '3', 'none', 'none'),
    });
    fc.assert(
      fc.property(example, (given) => {
        expect(logOf(given, ours)).toEqual(logOf(given, theirs));
      }),
      { numRuns: sized(150, 500), seed: 1 },
    );
  });

  it('does the same for calls that are promises', async () => {
    const run = async (operator: Operator): Promise<string[]> => {
      const log: string[] = [];
      const source = new Subject<string>();
      source.pipe(operator((item) => (item === 'bad' ? Promise.reject(fault) : Promise.resolve(item)))).subscribe({
        next: (value) => log.push(String(value)),
        error: (error: unknown) => log.push(String(error)),
        complete: () => log.push('complete'),
      });
      const tick = (): Promise<void> => Promise.resolve().then(() => void log.push('tick'));
      source.next('a');
      await tick();
      source.next('b');
      source.next('c');
      await tick();
      source.next('bad');
      source.next('d');
      await tick();
      source.next('bad');
      await tick();
      return log;
    };
    expect(await run(ours)).toEqual(await run(theirs));
    expect(await run(ours)).toEqual(['a', 'tick', 'c', 'tick', 'd', 'tick', 'Error: the fault', 'tick']);
  });
});

describe('where switchLatest differs from switchMap on purpose', () => {
  /** `project` sends 'b' into the source while it is called with 'a'. */
  const sentByProject = (operator: Operator): string[] => {
    const log: string[] = [];
    const source = new Subject<string>();
    const calls = { a: new Subject<string>(), b: new Subject<string>() };
    source
      .pipe(
        operator((item) => {
          if (item === 'a') source.next('b');
          return calls[item as 'a' | 'b'];
        }),
      )
      .subscribe((value) => log.push(String(value)));
    source.next('a');
    calls.a.next('of a');
    calls.b.next('of b');
    return log;
  };

  it('an item that `project` sends replaces the call that is being made; switchMap leaves both running', () => {
    expect(sentByProject(ours)).toEqual(['of b']);
    expect(sentByProject(theirs)).toEqual(['of a', 'of b']);
  });

  /** The consumer answers every number with the next one. */
  const countedByConsumer = (operator: Operator) => {
    const source = new Subject<string>();
    const seen: number[] = [];
    let depth = 0;
    let deepest = 0;
    source.pipe(operator((item) => of(Number(item)))).subscribe((value) => {
      deepest = Math.max(deepest, ++depth);
      seen.push(value as number);
      if ((value as number) < 50) source.next(String((value as number) + 1));
      depth -= 1;
    });
    source.next('1');
    return { seen, deepest };
  };

  it('what the consumer sends back is started after the value, in a loop; switchMap recurses', () => {
    const mine = countedByConsumer(ours);
    const stock = countedByConsumer(theirs);
    expect(mine.seen).toEqual(stock.seen);
    expect(mine.deepest).toBe(1);
    expect(stock.deepest).toBe(50);
  });

  /** The consumer leaves while `project` runs. */
  const startedAfterLeaving = (operator: Operator): number => {
    let started = 0;
    const source = new Subject<string>();
    const subscription = source
      .pipe(
        operator(() => {
          subscription.unsubscribe();
          return new Observable(() => {
            started += 1;
          });
        }),
      )
      .subscribe();
    source.next('a');
    return started;
  };

  it('a call whose consumer left while it was being made is not subscribed to; switchMap starts its work', () => {
    expect(startedAfterLeaving(ours)).toBe(0);
    expect(startedAfterLeaving(theirs)).toBe(1);
  });

  it('the late error of a superseded promise is told to `onEvent`; switchMap is silent about it', async () => {
    const events: string[] = [];
    const errors: unknown[] = [];
    const source = new Subject<string>();
    const late = (item: string): Promise<string> => (item === 'a' ? Promise.reject(fault) : new Promise(() => undefined));
    source
      .pipe(switchLatest(late, { onEvent: unstamped(({ type }) => events.push(type)) }))
      .subscribe({ error: (error: unknown) => errors.push(error) });
    source.pipe(switchMap(late)).subscribe({ error: (error: unknown) => errors.push(error) });
    source.next('a');
    source.next('b');
    await Promise.resolve();
    await Promise.resolve();
    expect(errors).toEqual([]);
    expect(events).toEqual(['cancelled', 'swallowed']);
  });

  it('a second function is no resultSelector but a mistake', () => {
    const pair = (outer: string, inner: string): string => outer + inner;
    expect(() => switchLatest(() => of('1'), pair as never)).toThrow(FlowConfigError);
  });

  it('`project` is given a context with a signal instead of the index; the index is in it', () => {
    const seen: unknown[] = [];
    of('a', 'b')
      .pipe(
        switchLatest((item, context) => {
          seen.push([item, context.index, context.signal.aborted]);
          return NEVER;
        }),
      )
      .subscribe();
    of('a', 'b')
      .pipe(
        switchMap((item, index) => {
          seen.push([item, index]);
          return NEVER;
        }),
      )
      .subscribe();
    expect(seen).toEqual([
      ['a', 0, false],
      ['b', 1, false],
      ['a', 0],
      ['b', 1],
    ]);
  });
});
