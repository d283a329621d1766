import type { Observable } from 'rxjs';
import { map, merge, mergeMap, of, Subject, take, takeUntil, tap, timer } from 'rxjs';
import type { Batcher, BatcherOptions, BatchWork, LoadOptions, Settled } from '../../operators/index.js';
import { CallbackError, createBatcher, divideAndConquer, fixed, inputOrder, lanes, lruCache, natural, splitItem } from '../../operators/index.js';
import type { MarbleSpec, SpecKit } from '../spec.js';

const fault = new Error('the source broke');
const badRequest = Object.assign(new Error('forbidden words'), { status: 400 });

/** The row of a call is named after its items. The answer is the items in capitals. */
const work =
  ({ inner }: SpecKit): BatchWork<string, string> =>
  (items) =>
    inner(items.join('')).pipe(map(() => items.map((item) => item.toUpperCase())));

/** A result is drawn as its value, a rejection as the item and the name of its error. */
const shown = (settled: Settled<string, string>): string => {
  if (settled.status === 'fulfilled') return settled.value;
  const { name, message } = settled.reason as Error;
  return `${settled.input}: ${name === 'Error' ? message : name}`;
};

/** Every item of the source is a caller that loads it; the result is what the callers get. */
const loaded =
  (
    options?: BatcherOptions<string, string>,
    load?: (batcher: Batcher<string, string>, item: string) => Observable<string>,
  ): MarbleSpec['build'] =>
  (kit) => {
    const batcher = createBatcher(work(kit), options);
    return kit.input('source').pipe(mergeMap((item) => load?.(batcher, item) ?? batcher.load(item)));
  };

/** As above, with rejections drawn instead of ending the drawing. */
const settled = (options?: BatcherOptions<string>, load?: LoadOptions): MarbleSpec['build'] =>
  loaded(options, (batcher, item) => batcher.loadSettled(item, load).pipe(map(shown)));

/** The batcher is told something at each value of `told`, while callers load what the source emits. */
const told =
  (tell: (batcher: Batcher<string, string>) => unknown, options?: BatcherOptions<string>): MarbleSpec['build'] =>
  (kit) => {
    const batcher = createBatcher(work(kit), options);
    const telling = kit.input('told').pipe(tap(() => tell(batcher)), mergeMap(() => []));
    return merge(telling, kit.input('source').pipe(mergeMap((item) => batcher.loadSettled(item).pipe(map(shown)))));
  };

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'createBatcher',
    title: 'sends the loads that wait in one call and answers every caller',
    shows: 'many',
    label: 'mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { concurrency: 1 })',
    inputs: { source:        '-a-bc---------|' },
    inners: { a:              '-----(r|)',
              bc:                  '---(r|)' },
    subscriptions: { source: '^-------------!', a: '-^----!', bc: '------^--!' },
    expected:                '------A--(BC)-|',
    cover: true,
    options: { concurrency: 1 },
    build: (kit) => loaded(kit.options)(kit),
  },

  // What every operator must answer for.
  {
    operator: 'createBatcher',
    title: 'waits for callers who never come',
    shows: 'never',
    label: 'mergeMap((item) => batcher.load(item))',
    inputs: { source:        '-' },
    subscriptions: { source: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: loaded(),
  },
  {
    operator: 'createBatcher',
    title: 'makes no call without loads',
    shows: 'empty',
    label: 'mergeMap((item) => batcher.load(item))',
    inputs: { source:        '---|' },
    expected:                '---|',
    build: loaded(),
  },
  {
    operator: 'createBatcher',
    title: 'sends a single load at once',
    shows: 'one',
    label: 'mergeMap((item) => batcher.load(item))',
    inputs: { source:        '-a|' },
    inners: { a:              '--(r|)' },
    subscriptions: { a: '-^-!' },
    expected:                '---(A|)',
    build: loaded(),
  },
  {
    operator: 'createBatcher',
    title: 'gathers the loads of one frame and cuts them by size',
    label: "mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { maxSize: 2, window: natural() })",
    inputs: { source:        '(abc)|' },
    inners: { ab:            '--(r|)',
              c:             '------(r|)' },
    subscriptions: { ab: '^-!', c: '^-----!' },
    expected:                '--(AB)(C|)',
    synchronous: ['source'],
    build: loaded({ maxSize: 2, window: natural() }),
  },
  {
    operator: 'createBatcher',
    title: 'stops the call when all its callers have left',
    shows: 'error',
    label: 'mergeMap((item) => batcher.load(item))',
    inputs: { source:        '-(ab)--#' },
    inners: { ab:             '---------(r|)' },
    subscriptions: { ab: '-^-----!' },
    expected:                '-------#',
    error: fault,
    build: loaded(),
  },
  {
    operator: 'createBatcher',
    title: 'forgets the loads that wait and stops the call when the consumer leaves',
    shows: 'early leave',
    label: 'mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { concurrency: 1 })',
    inputs: { source:        '-a-b----' },
    inners: { a:              '---------(r|)' },
    subscriptions: { a: '-^---!' },
    expected:                '------',
    unsub:                   '^----!',
    build: loaded({ concurrency: 1 }),
  },
  {
    operator: 'createBatcher',
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'mergeMap((item) => batcher.load(item)), batcher = createBatcher(atOnce, { maxSize: 2 }), take(1)',
    inputs: { source:        '(abcdef|)' },
    expected:                '(a|)',
    synchronous: ['source'],
    build: ({ input }) => {
      const batcher = createBatcher<string, string>((items) => of(items), { maxSize: 2 });
      return input('source').pipe(mergeMap((item) => batcher.load(item)), take(1));
    },
  },
  {
    operator: 'createBatcher',
    title: 'answers the caller whose callback throws, and continues',
    shows: 'throwing callback',
    label: 'mergeMap((item) => batcher.loadSettled(item)), batcher = createBatcher(work, { weigh: throwsAtB })',
    inputs: { source:        '(abc)--|' },
    inners: { ac:            '---(r|)' },
    expected:                'x--(AC)|',
    values: { x: 'b: CallbackError' },
    synchronous: ['source'],
    build: settled({ weigh: (item) => { if (item === 'b') throw fault; return 1; } }),
  },
  {
    operator: 'createBatcher',
    title: 'answers with an error when dedupe throws',
    label: 'mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { dedupe: throws })',
    inputs: { source:        '-a-|' },
    expected:                '-#',
    error: new CallbackError('createBatcher', 'dedupe', 'threw', fault),
    build: loaded({ dedupe: () => { throw fault; } }),
  },
  {
    operator: 'createBatcher',
    title: 'puts what a caller loads at its result into the next call',
    shows: 're-entrant source',
    label: 'mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { concurrency: 1 }), A makes b and c be loaded',
    inputs: { source:        '-a----------' },
    inners: { a:              '---(r|)',
              bc:                '---(r|)' },
    expected:                '----A--(BC)',
    build: (kit) => {
      const loop = new Subject<string>();
      const batcher = createBatcher(work(kit), { concurrency: 1 });
      const answer = (result: string): void => {
        if (result === 'A') ['b', 'c'].forEach((item) => { loop.next(item); });
      };
      return merge(kit.input('source'), loop).pipe(mergeMap((item) => batcher.load(item)), tap(answer));
    },
  },
  {
    operator: 'createBatcher',
    title: 'splits a call that one of ten prompts spoils: nine answers, one error, 8 calls',
    label: 'mergeMap((item) => batcher.loadSettled(item)), batcher = createBatcher(work, { repair: divideAndConquer() })',
    inputs: { source:        '(abcdefghij)' },
    inners: { abcdefghij:    '--#',
              ab:              '--(r|)',
              cde:             '--#',
              fg:              '--(r|)',
              hij:             '--(r|)',
              c:                 '---------(r|)',
              d:                 '---------#',
              e:                 '---------(r|)' },
    expected:                '----(ABFGHIJ)(CxE)',
    values: { x: 'd: forbidden words' },
    error: badRequest,
    synchronous: ['source'],
    build: settled({ repair: divideAndConquer() }),
  },

  // Loads of the same thing.
  {
    operator: 'createBatcher',
    title: 'shares one item between loads of equal keys while it is under way, and not afterwards',
    label: 'mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { dedupe: (item) => item })',
    inputs: { source:        '-a-a---a----|' },
    inners: { a:              '---(r|)' },
    subscriptions: { a: ['-^--!', '-------^--!'] },
    expected:                '----(AA)--A-|',
    build: loaded({ dedupe: (item) => item }),
  },
  {
    operator: 'createBatcher',
    title: 'sends every load on its own without dedupe',
    label: "mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { window: natural() })",
    inputs: { source:        '-a-a------|' },
    inners: { a:              '---(r|)' },
    subscriptions: { a: ['-^--!', '---^--!'] },
    expected:                '----A-A---|',
    build: loaded({ window: natural() }),
  },
  {
    operator: 'createBatcher',
    title: 'keeps the call for the caller who stays, and stops it after the last',
    label: 'mergeMap((item) => batcher.load(item)), takeUntil(first or second), batcher = createBatcher(work, { dedupe })',
    inputs: { source:        '-a-b-------|',
              first:         '^---x------',
              second:        '^-----x----' },
    inners: { a:              '---------(r|)' },
    subscriptions: { a: '-^----!' },
    expected:                '-----------|',
    build: (kit) => {
      const batcher = createBatcher(work(kit), { dedupe: () => 'the same' });
      const leaving: Record<string, string> = { a: 'first', b: 'second' };
      return kit.input('source').pipe(mergeMap((item) => batcher.load(item).pipe(takeUntil(kit.input(leaving[item] ?? '')))));
    },
  },
  {
    operator: 'createBatcher',
    title: 'moves a shared item to the more urgent lane of a later load',
    label: "batcher.load(item, { lane: capital ? 'urgent' : 'later' }), batcher = createBatcher(work, { lanes, dedupe, maxSize: 1, concurrency: 1 })",
    inputs: { source:        '-abcC-------|' },
    inners: { a:              '-----(r|)',
              c:                   '--(r|)',
              b:                     '----(r|)' },
    subscriptions: { a: '-^----!', c: '------^-!', b: '--------^---!' },
    expected:                '------A-(CC)(B|)',
    build: loaded(
      { queue: lanes([{ name: 'urgent' }, { name: 'later' }]), dedupe: (item) => item.toLowerCase(), maxSize: 1, concurrency: 1 },
      (batcher, item) => batcher.load(item, { lane: item === item.toLowerCase() ? 'later' : 'urgent' }),
    ),
  },

  // What is remembered.
  {
    operator: 'createBatcher',
    title: 'answers a known key in the frame in which it is asked for, with a cache',
    label: 'mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { cache: lruCache(100) })',
    inputs: { source:        '-a-a----(ab)---|' },
    inners: { a:              '---(r|)',
              b:                      '---(r|)' },
    subscriptions: { a: '-^--!', b: '--------^--!' },
    expected:                '----(AA)A--B---|',
    build: loaded({ cache: lruCache(100) }),
  },
  {
    operator: 'createBatcher',
    title: 'asks again for a value that is too old',
    label: 'mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { cache: lruCache(100, { ttlMs: 5 }) })',
    inputs: { source:        '-a----a-a------|' },
    inners: { a:              '--(r|)' },
    subscriptions: { a: ['-^-!', '--------^-!'] },
    expected:                '---A--A---A----|',
    build: loaded({ cache: lruCache(100, { ttlMs: 5 }) }),
  },
  {
    operator: 'createBatcher',
    title: 'remembers no failure',
    label: 'mergeMap((item) => batcher.loadSettled(item)), batcher = createBatcher(work, { cache: lruCache(100) })',
    inputs: { source:        '-a----a----|' },
    inners: { a:              '--#' },
    subscriptions: { a: ['-^-!', '------^-!'] },
    expected:                '---x----x--|',
    values: { x: 'a: forbidden words' },
    error: badRequest,
    build: settled({ cache: lruCache(100) }),
  },
  {
    operator: 'createBatcher',
    title: 'after clear answers waiting callers, and makes a new call for later ones',
    label: "batcher.clear('a') at c, batcher = createBatcher(work, { cache: lruCache(100), window: natural() })",
    inputs: { told:          '--c--------|',
              source:        '-a-a----a--|' },
    inners: { a:              '---(r|)' },
    subscriptions: { a: ['-^--!', '---^--!'] },
    expected:                '----A-A-A--|',
    build: told((batcher) => batcher.clear('a'), { cache: lruCache(100), window: natural() }),
  },

  // Time, and the end.
  {
    operator: 'createBatcher',
    title: 'rejects a load that is not answered within its own deadline',
    label: 'mergeMap((item) => batcher.loadSettled(item, { deadlineMs: 4 }))',
    inputs: { source:        '-a---|' },
    inners: { a:              '---------(r|)' },
    subscriptions: { a: '-^---!' },
    expected:                '-----(x|)',
    values: { x: 'a: DeadlineError' },
    build: settled(undefined, { deadlineMs: 4 }),
  },
  {
    operator: 'createBatcher',
    title: 'does not wait for the window after a flush',
    label: "batcher.flush() at f, batcher = createBatcher(work, { window: fixed(50) })",
    inputs: { told:          '----f-----|',
              source:        '-ab-------|' },
    inners: { ab:                '--(r|)' },
    subscriptions: { ab: '----^-!' },
    expected:                '------(AB)|',
    build: told((batcher) => { batcher.flush(); }, { window: fixed(50) }),
  },
  {
    operator: 'createBatcher',
    title: 'takes no more loads after drain, answers those it has, and does not wait for the window',
    label: "batcher.drain() at d, batcher = createBatcher(work, { window: fixed(50) })",
    inputs: { told:          '----d-----|',
              source:        '-ab--c----|' },
    inners: { ab:                '--(r|)' },
    subscriptions: { ab: '----^-!' },
    expected:                '-----x(AB)|',
    values: { x: 'c: ClosedError' },
    build: told((batcher) => batcher.drain(), { window: fixed(50) }),
  },
  {
    operator: 'createBatcher',
    title: 'rejects every load and stops the calls at close',
    label: 'batcher.close() at x, batcher = createBatcher(work, { concurrency: 1 })',
    inputs: { told:          '----x-----|',
              source:        '-ab-----c-|' },
    inners: { a:              '---------(r|)' },
    subscriptions: { a: '-^--!' },
    expected:                '----(vw)z-|',
    values: { v: 'a: ClosedError', w: 'b: ClosedError', z: 'c: ClosedError' },
    build: told((batcher) => { batcher.close(); }, { concurrency: 1 }),
  },
  {
    operator: 'createBatcher',
    title: 'continues a call for its remaining callers when one leaves, and never sends a cancelled item',
    label: 'b and c are left at 4, batcher = createBatcher(work, { maxSize: 2, concurrency: 1 })',
    inputs: { source:        '(abcd)----|' },
    inners: { ab:            '------(r|)',
              d:                   '--(r|)' },
    subscriptions: { ab: '^-----!', d: '------^-!' },
    expected:                '------A-D-|',
    synchronous: ['source'],
    build: loaded({ maxSize: 2, concurrency: 1 }, (batcher, item) =>
      'bc'.includes(item) ? batcher.load(item).pipe(takeUntil(timer(4))) : batcher.load(item),
    ),
  },
  {
    operator: 'createBatcher',
    title: "answers in the order of the loads with inputOrder()",
    label: "mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { maxSize: 1, order: inputOrder() })",
    inputs: { source:        '-ab-------|' },
    inners: { a:              '-----(r|)',
              b:               '-(r|)' },
    expected:                '------(AB)|',
    build: loaded({ maxSize: 1, order: inputOrder() }),
  },
  {
    operator: 'createBatcher',
    title: "sends a load that is too heavy in parts with splitItem(), and answers with one result",
    label: "batcher = createBatcher(work, { maxWeight: 5, weigh, oversize: splitItem(into, join) })",
    inputs: { source:        '-9------|' },
    inners: { '4':            '--(r|)',
              '5':            '---(r|)' },
    expected:                '----z---|',
    values: { z: '4+5' },
    build: loaded({ maxWeight: 5, weigh: Number, oversize: splitItem(() => ['4', '5'], (results: readonly string[]) => results.join('+')) }),
  },
];
