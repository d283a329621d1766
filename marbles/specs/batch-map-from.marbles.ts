import { map, of, take, tap, toArray } from 'rxjs';
import type { BatchMapFromOptions, BatchWork, Settled } from '../../operators/index.js';
import { batchMapFrom, divideAndConquer, fixed, inputOrder, unwrap } from '../../operators/index.js';
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

const mapped =
  (input: Iterable<string>, options?: BatchMapFromOptions<string>): MarbleSpec['build'] =>
  (kit) =>
    batchMapFrom(input, work(kit), options).pipe(map(shown));

/** Reads `input` and notes, in the result, what had been read when each call was made. */
const noting =
  (input: string, options: BatchMapFromOptions<string>): MarbleSpec['build'] =>
  ({ inner }) => {
    let read = '';
    function* reading() {
      for (const item of input) {
        read += item;
        yield item;
      }
    }
    const noted: BatchWork<string, string> = (items) => {
      const note = `${items.join('')} sent, ${read} read`;
      return inner(items.join('')).pipe(map(() => items.map(() => note)));
    };
    return batchMapFrom(reading(), noted, options).pipe(map(shown));
  };

/** Runs for ever. */
function* endless() {
  for (;;) yield* 'abcdefghijklm';
}

function* breaking() {
  yield 'a';
  yield 'b';
  throw fault;
}

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'batchMapFrom',
    title: 'reads on while there is room, and fills the next batch while a call is under way',
    shows: 'many',
    label: "batchMapFrom('abcde', work, { maxSize: 2, concurrency: 1 })",
    inputs: {},
    inners: { ab:            '----(r|)',
              cd:                '----(r|)',
              e:                     '----(r|)' },
    subscriptions: { ab: '^---!', cd: '----^---!', e: '--------^---!' },
    expected:                '----(AB)(CD)(E|)',
    cover: true,
    options: { maxSize: 2, concurrency: 1 },
    build: (kit) => mapped('abcde', kit.options)(kit),
  },
  {
    operator: 'batchMapFrom',
    title: 'reads no further than maxQueued allows',
    label: "batchMapFrom('abcdefgh', work, { maxSize: 2, maxQueued: 3, concurrency: 1 })",
    inputs: {},
    inners: { ab:            '----(r|)',
              cd:                '----(r|)',
              ef:                    '----(r|)',
              gh:                        '----(r|)' },
    expected:                '----(vv)(ww)(xx)(yy|)',
    values: { v: 'ab sent, ab read', w: 'cd sent, abcde read', x: 'ef sent, abcdefg read', y: 'gh sent, abcdefgh read' },
    build: noting('abcdefgh', { maxSize: 2, maxQueued: 3, concurrency: 1 }),
  },

  // What every operator must answer for.
  {
    operator: 'batchMapFrom',
    title: 'waits for a call that never answers, and ends it when the consumer leaves',
    shows: 'never',
    label: 'batchMapFrom(endless, work, { maxSize: 2, concurrency: 1, timeoutMs: Infinity })',
    inputs: {},
    inners: { ab:            '-' },
    subscriptions: { ab: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: mapped({ [Symbol.iterator]: endless }, { maxSize: 2, concurrency: 1, timeoutMs: Infinity }),
  },
  {
    operator: 'batchMapFrom',
    title: 'completes with an empty input, without a call',
    shows: 'empty',
    label: 'batchMapFrom([], work)',
    inputs: {},
    expected:                '|',
    build: mapped([]),
  },
  {
    operator: 'batchMapFrom',
    title: 'sends a single item',
    shows: 'one',
    label: "batchMapFrom('a', work)",
    inputs: {},
    inners: { a:             '--(r|)' },
    subscriptions: { a: '^-!' },
    expected:                '--(A|)',
    build: mapped('a'),
  },
  {
    operator: 'batchMapFrom',
    title: 'stops its calls when the input throws, and errors with what was thrown',
    shows: 'error',
    label: 'batchMapFrom(throwsAfterB, work, { maxSize: 1 })',
    inputs: {},
    inners: { a:             '--(r|)',
              b:             '--(r|)' },
    subscriptions: { a: '(^!)', b: '(^!)' },
    expected:                '#',
    error: fault,
    build: (kit) => batchMapFrom({ [Symbol.iterator]: breaking }, work(kit), { maxSize: 1 }).pipe(map(shown)),
  },
  {
    operator: 'batchMapFrom',
    title: 'stops reading an endless input as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'batchMapFrom(endless, atOnce, { maxSize: 2 }), take(3)',
    inputs: {},
    expected:                '(abc|)',
    build: () => batchMapFrom(endless(), (items) => of(items), { maxSize: 2 }).pipe(map(shown), take(3)),
  },
  {
    operator: 'batchMapFrom',
    title: 'rejects the item whose callback throws, and only that',
    shows: 'throwing callback',
    label: "batchMapFrom('abc', work, { weigh: throwsAtB })",
    inputs: {},
    inners: { ac:            '--(r|)' },
    expected:                'x-(AC|)',
    values: { x: 'b: CallbackError' },
    build: mapped('abc', { weigh: (item) => { if (item === 'b') throw fault; return 1; } }),
  },
  {
    operator: 'batchMapFrom',
    title: 'reads what the consumer adds to the list while it is being read',
    shows: 're-entrant source',
    label: 'batchMapFrom(list, work, { maxSize: 1, maxQueued: 1, concurrency: 1 }), the consumer adds c to [a, b] at A',
    inputs: {},
    inners: { a:             '--(r|)',
              b:               '--(r|)',
              c:                 '--(r|)' },
    expected:                '--A-B-(C|)',
    build: (kit) => {
      const list = ['a', 'b'];
      const add = (result: string): void => {
        if (result === 'A') list.push('c');
      };
      return batchMapFrom(list, work(kit), { maxSize: 1, maxQueued: 1, concurrency: 1 }).pipe(map(shown), tap(add));
    },
  },

  // The rest is `batchMap`.
  {
    operator: 'batchMapFrom',
    title: "reads no further while as many results as maxQueued are held back with inputOrder()",
    label: "batchMapFrom('abcde', work, { maxSize: 1, maxQueued: 2, concurrency: 2, order: inputOrder() })",
    inputs: {},
    inners: { a:             '-------(r|)',
              b:             '-(r|)',
              c:              '-(r|)',
              d:                    '-----(r|)',
              e:                    '-----(r|)' },
    subscriptions: { a: '^------!', b: '^!', c: '-^!', d: '-------^----!', e: '-------^----!' },
    expected:                '-------(ABC)(DE|)',
    build: mapped('abcde', { maxSize: 1, maxQueued: 2, concurrency: 2, order: inputOrder() }),
  },
  {
    operator: 'batchMapFrom',
    title: "errors with the reason of the first item that fails for good behind unwrap, and reads no further",
    label: "batchMapFrom(endless, work, { maxSize: 1, maxQueued: 1, concurrency: 2 }), unwrap('first')",
    inputs: {},
    inners: { a:             '----(r|)',
              b:             '--#' },
    subscriptions: { a: '^-!', b: '^-!' },
    expected:                '--#',
    error: badRequest,
    build: (kit) => batchMapFrom({ [Symbol.iterator]: endless }, work(kit), { maxSize: 1, maxQueued: 1, concurrency: 2 }).pipe(unwrap('first')),
  },
  {
    operator: 'batchMapFrom',
    title: 'sends all that waits at each value of flush',
    label: "batchMapFrom('abc', work, { maxQueued: 2, flush, window: fixed(50) })",
    inputs: { flush:         '---f-' },
    inners: { ab:               '--(r|)',
              c:                '------(r|)' },
    subscriptions: { flush:  '^--------!', ab: '---^-!', c: '---^-----!' },
    expected:                '-----(AB)(C|)',
    build: (kit) =>
      batchMapFrom('abc', work(kit), { maxQueued: 2, flush: kit.input('flush'), window: fixed(50) }).pipe(map(shown)),
  },
  {
    operator: 'batchMapFrom',
    title: 'splits a bad batch; its parts take up room, so nothing is read ahead of them',
    label: "batchMapFrom('abcdefgh', work, { maxSize: 4, maxQueued: 4, concurrency: 1, repair: divideAndConquer({ parts: 2 }) })",
    inputs: {},
    inners: { abcd:          '--#',
              ab:              '--(r|)',
              cd:                  '----#',
              c:                       '----(r|)',
              d:                           '--#',
              efgh:                          '--(r|)' },
    subscriptions: { abcd: '^-!', ab: '--^-!', cd: '----^---!', c: '--------^---!', d: '------------^-!', efgh: '--------------^-!' },
    expected:                '----(AB)----C-x-(EFGH|)',
    values: { x: 'd: forbidden words' },
    error: badRequest,
    build: mapped('abcdefgh', { maxSize: 4, maxQueued: 4, concurrency: 1, repair: divideAndConquer({ parts: 2 }) }),
  },
  {
    operator: 'batchMapFrom',
    title: 'cuts a list that fails into four parts, and the part that fails again, until the bad item stands alone',
    label: "batchMapFrom('abcdefgh', work, { repair: divideAndConquer(), order: inputOrder() }), toArray()",
    inputs: {},
    inners: { abcdefgh: '--#',
              ab:         '--(r|)',
              cd:         '--#',
              ef:         '---(r|)',
              gh:         '--(r|)',
              c:            '-#',
              d:            '---(r|)' },
    expected:           '-------(R|)',
    values: { R: 'ABcDEFGH' },
    error: badRequest,
    build: (kit) =>
      batchMapFrom('abcdefgh', work(kit), { repair: divideAndConquer(), order: inputOrder() }).pipe(
        map((settled) => (settled.status === 'fulfilled' ? settled.value : settled.input)),
        toArray(),
        map((all) => all.join('')),
      ),
  },
  {
    operator: 'batchMapFrom',
    title: 'stops every call when the consumer leaves, and reads no further',
    shows: 'early leave',
    label: "batchMapFrom('abcdefgh', work, { maxSize: 2, maxQueued: 2, concurrency: 1 })",
    inputs: {},
    inners: { ab:            '----(r|)',
              cd:                '------(r|)',
              ef:            '(r|)' },
    subscriptions: { ab: '^---!', cd: '----^--!', ef: [] },
    expected:                '----(vv)',
    values: { v: 'ab sent, ab read' },
    unsub:                   '^------!',
    build: noting('abcdefgh', { maxSize: 2, maxQueued: 2, concurrency: 1 }),
  },
];
