import { merge, Subject, take, tap } from 'rxjs';
import type { BatchOptions } from '../../operators/index.js';
import { batch, CallbackError } from '../../operators/index.js';
import type { MarbleSpec, SpecKit } from '../spec.js';

const fault = new Error('the source broke');

const values = { x: ['a', 'b'], y: ['c', 'd'], w: ['e'] };

/** Digits are their own weight: '3' weighs 3. */
const weigh = Number;

/** The texts of the embedding examples, as tokens; all others are one token long. */
const TOKENS: Readonly<Record<string, number>> = { h: 9000, q: 3000, r: 5192, t: 5193 };
const embedding: BatchOptions<string> = { maxSize: 20, maxWaitMs: 100, maxWeight: 8192, weigh: (text) => TOKENS[text] ?? 1 };
const embeddingLabel = 'batch({ maxSize: 20, maxWaitMs: 100, maxWeight: 8192, weigh: tokens })';

const isCapital = (letter: string): boolean => letter !== letter.toLowerCase();

const batched = (options?: BatchOptions<string>): MarbleSpec['build'] => ({ input }) => input('source').pipe(batch(options));

/** The consumer sends `answers` into the source while it is handed the batch `question`. */
const fedBack = ({ input }: SpecKit, options: BatchOptions<string>, question: string, answers: readonly string[]) => {
  const loop = new Subject<string>();
  const answer = (items: readonly string[]): void => {
    if (items.join('') === question) answers.forEach((item) => { loop.next(item); });
  };
  return merge(input('source'), loop).pipe(batch(options), tap(answer));
};

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'batch',
    title: 'closes a batch when it is full or its first item is old enough',
    shows: 'many',
    label: 'batch({ maxSize: 2, maxWaitMs: 5 })',
    inputs: { source:        '-a-b-c---d-----e--|' },
    subscriptions: { source: '^-----------------!' },
    expected:                '---x-----y--------(w|)',
    values,
    cover: true,
    options: { maxSize: 2, maxWaitMs: 5 },
    build: (kit) => batched(kit.options)(kit),
  },

  // What every operator must answer for.
  {
    operator: 'batch',
    title: 'waits for a source that never emits',
    shows: 'never',
    label: 'batch()',
    inputs: { source:        '-' },
    subscriptions: { source: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: batched(),
  },
  {
    operator: 'batch',
    title: 'completes with an empty source, without an empty batch',
    shows: 'empty',
    label: 'batch()',
    inputs: { source:        '---|' },
    subscriptions: { source: '^--!' },
    expected:                '---|',
    build: batched(),
  },
  {
    operator: 'batch',
    title: 'emits a single item when the source completes',
    shows: 'one',
    label: 'batch()',
    inputs: { source:        '-a--|' },
    subscriptions: { source: '^---!' },
    expected:                '----(x|)',
    values: { x: ['a'] },
    build: batched(),
  },
  {
    operator: 'batch',
    title: 'emits the open batch before the error of the source',
    shows: 'error',
    label: 'batch()',
    inputs: { source:        '-a-b-#' },
    subscriptions: { source: '^----!' },
    expected:                '-----(x#)',
    values,
    error: fault,
    build: batched(),
  },
  {
    operator: 'batch',
    title: "drops the open batch at the error of the source with onSourceError 'abort'",
    label: "batch({ onSourceError: 'abort' })",
    inputs: { source:        '-a-b-#' },
    subscriptions: { source: '^----!' },
    expected:                '-----#',
    error: fault,
    build: batched({ onSourceError: 'abort' }),
  },
  {
    operator: 'batch',
    title: 'drops the open batch when the consumer leaves',
    shows: 'early leave',
    label: 'batch({ maxSize: 3 })',
    inputs: { source:        '-a-b-----c--|' },
    subscriptions: { source: '^-----!' },
    expected:                '-------------',
    unsub:                   '^-----!',
    build: batched({ maxSize: 3 }),
  },
  {
    operator: 'batch',
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'batch({ maxSize: 2 }), take(1)',
    inputs: { source:        '(abcdef|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(x|)',
    values,
    synchronous: ['source'],
    build: ({ input }) => input('source').pipe(batch({ maxSize: 2 }), take(1)),
  },
  {
    operator: 'batch',
    title: 'cuts a synchronous burst by size',
    label: 'batch({ maxSize: 2 })',
    inputs: { source:        '(abcde|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(xyw|)',
    values,
    synchronous: ['source'],
    build: batched({ maxSize: 2 }),
  },
  {
    operator: 'batch',
    title: 'turns a throwing callback into an error, after the open batch',
    shows: 'throwing callback',
    label: 'batch({ weigh: throwsAtC })',
    inputs: { source:        '-a-b-c-d|' },
    subscriptions: { source: '^----!' },
    expected:                '-----(x#)',
    values,
    error: new CallbackError('batch', 'weigh', 'threw', fault),
    build: batched({ weigh: (item) => { if (item === 'c') throw fault; return 1; } }),
  },
  {
    operator: 'batch',
    title: 'refuses a weight that is not a number',
    label: 'batch({ weigh: notANumberAtC })',
    inputs: { source:        '-a-b-c-d|' },
    subscriptions: { source: '^----!' },
    expected:                '-----(x#)',
    values,
    error: new CallbackError('batch', 'weigh', 'must return a finite number >= 0, returned NaN'),
    build: batched({ weigh: (item) => (item === 'c' ? NaN : 1) }),
  },
  {
    operator: 'batch',
    title: 'puts what the consumer sends back into a fresh batch',
    shows: 're-entrant source',
    label: 'batch({ maxSize: 2 }), the consumer answers [a, b] with c and d',
    inputs: { source:        '-ab--' },
    expected:                '--(xy)',
    values,
    build: (kit) => fedBack(kit, { maxSize: 2 }, 'ab', ['c', 'd']),
  },
  {
    operator: 'batch',
    title: 'keeps what the consumer sends back behind the item that closed the batch',
    label: 'batch({ maxWeight: 3, weigh }), the consumer answers [2] with 1',
    inputs: { source:        '-2-2--' },
    expected:                '---(xy)',
    values: { x: ['2'], y: ['2', '1'] },
    build: (kit) => fedBack(kit, { maxWeight: 3, weigh }, '2', ['1']),
  },

  // Time.
  {
    operator: 'batch',
    title: 'counts the wait from the first item; later ones do not prolong it',
    label: 'batch({ maxWaitMs: 5 })',
    inputs: { source:        '-a-b-c--d--------|' },
    expected:                '------x------y---|',
    values: { x: ['a', 'b', 'c'], y: ['d'] },
    build: batched({ maxWaitMs: 5 }),
  },
  {
    operator: 'batch',
    title: 'takes in an item that arrives in the very frame of the deadline',
    label: 'batch({ maxWaitMs: 5 })',
    inputs: { source:        '-a----b---|' },
    expected:                '------x---|',
    values,
    build: batched({ maxWaitMs: 5 }),
  },
  {
    operator: 'batch',
    title: 'gives the batch after a full one its own wait',
    label: 'batch({ maxSize: 2, maxWaitMs: 5 })',
    inputs: { source:        '-ab-c--------|' },
    expected:                '--x------y---|',
    values: { x: ['a', 'b'], y: ['c'] },
    build: batched({ maxSize: 2, maxWaitMs: 5 }),
  },
  {
    operator: 'batch',
    title: 'waits for company for ever with maxWaitMs Infinity',
    label: 'batch({ maxWaitMs: Infinity })',
    inputs: { source:        '-a 999ms b|' },
    expected:                '-- 1000ms (x|)',
    values,
    build: batched({ maxWaitMs: Infinity }),
  },
  {
    operator: 'batch',
    title: 'gathers one frame with maxWaitMs 0',
    label: 'batch({ maxWaitMs: 0 })',
    inputs: { source:        '(abc)--d|' },
    expected:                'x------y|',
    values: { x: ['a', 'b', 'c'], y: ['d'] },
    synchronous: ['source'],
    build: batched({ maxWaitMs: 0 }),
  },

  // Weight. Digits weigh what they say.
  {
    operator: 'batch',
    title: 'closes at once when the weight is met exactly',
    label: 'batch({ maxWeight: 5, weigh })',
    inputs: { source:        '-2-3--|' },
    expected:                '---x--|',
    values: { x: ['2', '3'] },
    build: batched({ maxWeight: 5, weigh }),
  },
  {
    operator: 'batch',
    title: 'closes before an item that does not fit, whose wait starts at its own arrival',
    label: 'batch({ maxWeight: 5, maxWaitMs: 5, weigh })',
    inputs: { source:        '-3-4---------|' },
    expected:                '---x----y----|',
    values: { x: ['3'], y: ['4'] },
    build: batched({ maxWeight: 5, maxWaitMs: 5, weigh }),
  },
  {
    operator: 'batch',
    title: 'counts items without weight by number only',
    label: 'batch({ maxWeight: 5, maxSize: 3, weigh })',
    inputs: { source:        '-0-0-0--0|' },
    expected:                '-----x---(y|)',
    values: { x: ['0', '0', '0'], y: ['0'] },
    build: batched({ maxWeight: 5, maxSize: 3, weigh }),
  },
  {
    operator: 'batch',
    title: 'sends an item that is too heavy alone, after the open batch',
    label: "batch({ maxWeight: 5, weigh })",
    inputs: { source:        '-3-9-2--|' },
    expected:                '---(xy)-(z|)',
    values: { x: ['3'], y: ['9'], z: ['2'] },
    build: batched({ maxWeight: 5, weigh }),
  },

  // Closing by hand.
  {
    operator: 'batch',
    title: 'closes the open batch at each value of flush',
    label: 'batch({ flush })',
    inputs: { source:        '-a-b-----c-|',
              flush:         '----f--f----' },
    subscriptions: { source: '^----------!',
                     flush:  '^----------!' },
    expected:                '----x------(y|)',
    values: { x: ['a', 'b'], y: ['c'] },
    build: ({ input }) => input('source').pipe(batch({ flush: input('flush') })),
  },
  {
    operator: 'batch',
    title: 'continues when flush completes',
    label: 'batch({ flush })',
    inputs: { source:        '-a-b---|',
              flush:         '--|     ' },
    subscriptions: { source: '^------!',
                     flush:  '^-!     ' },
    expected:                '-------(x|)',
    values,
    build: ({ input }) => input('source').pipe(batch({ flush: input('flush') })),
  },
  {
    operator: 'batch',
    title: 'errors with flush, after the open batch',
    label: 'batch({ flush })',
    inputs: { source:        '-a-b-----|',
              flush:         '----#    ' },
    subscriptions: { source: '^---!    ',
                     flush:  '^---!    ' },
    expected:                '----(x#)',
    values,
    error: fault,
    build: ({ input }) => input('source').pipe(batch({ flush: input('flush') })),
  },
  {
    operator: 'batch',
    title: "closes before an item on closeWhen 'before'",
    label: "batch({ closeWhen: (letter) => isCapital(letter) && 'before' })",
    inputs: { source:        '-a-b-C-d-|' },
    expected:                '-----x---(y|)',
    values: { x: ['a', 'b'], y: ['C', 'd'] },
    build: batched({ closeWhen: (letter) => isCapital(letter) && 'before' }),
  },
  {
    operator: 'batch',
    title: "closes after an item on closeWhen 'after'",
    label: "batch({ closeWhen: (letter) => isCapital(letter) && 'after' })",
    inputs: { source:        '-a-b-C-d-|' },
    expected:                '-----x---(y|)',
    values: { x: ['a', 'b', 'C'], y: ['d'] },
    build: batched({ closeWhen: (letter) => isCapital(letter) && 'after' }),
  },
  {
    operator: 'batch',
    title: 'gives the batch that closeWhen begins a wait of its own',
    label: "batch({ maxWaitMs: 5, closeWhen: (letter) => isCapital(letter) && 'before' })",
    inputs: { source:        '-a-B---------|' },
    expected:                '---x----y----|',
    values: { x: ['a'], y: ['B'] },
    build: batched({ maxWaitMs: 5, closeWhen: (letter) => isCapital(letter) && 'before' }),
  },

  // An embedding endpoint: at most 20 texts, 8192 tokens and 100 ms of waiting. Texts are 1 token long, but q 3000, r 5192, t 5193, h 9000.
  {
    operator: 'batch',
    title: 'embedding: sends 20 texts at once and lets the next wait 100 ms',
    label: embeddingLabel,
    inputs: { source:        '(abcdefgijklmnopuvwxyz)' },
    expected:                'X 99ms Y',
    values: { X: Array.from('abcdefgijklmnopuvwxy'), Y: ['z'] },
    build: batched(embedding),
  },
  {
    operator: 'batch',
    title: 'embedding: starts the 100 ms at the first text',
    label: embeddingLabel,
    inputs: { source:        '-a 49ms b 99ms c' },
    expected:                '- 100ms X 149ms Y',
    values: { X: ['a', 'b'], Y: ['c'] },
    build: batched(embedding),
  },
  {
    operator: 'batch',
    title: 'embedding: sends exactly 8192 tokens at once',
    label: embeddingLabel,
    inputs: { source:        '-q 9ms r---|' },
    expected:                '- 10ms X---|',
    values: { X: ['q', 'r'] },
    build: batched(embedding),
  },
  {
    operator: 'batch',
    title: 'embedding: sends what is there before 8193 tokens, the rest waits its own 100 ms',
    label: embeddingLabel,
    inputs: { source:        '-q 9ms t 199ms |' },
    expected:                '- 10ms X 99ms Y 99ms |',
    values: { X: ['q'], Y: ['t'] },
    build: batched(embedding),
  },
  {
    operator: 'batch',
    title: 'embedding: sends a text above 8192 tokens alone and at once',
    label: embeddingLabel,
    inputs: { source:        '-a-h-b 199ms |' },
    expected:                '---(XY) 98ms Z 99ms |',
    values: { X: ['a'], Y: ['h'], Z: ['b'] },
    build: batched(embedding),
  },

  // The same five items by time and by count.
  {
    operator: 'batch',
    title: 'five items by time: each wait starts at a first item, not at a tick',
    label: 'batch({ maxWaitMs: 50 })',
    inputs: { source:        'A 9ms B 29ms C 19ms D 29ms E 49ms |' },
    expected:                '50ms x 59ms y 29ms |',
    values: { x: ['A', 'B', 'C'], y: ['D', 'E'] },
    build: batched({ maxWaitMs: 50 }),
  },
  {
    operator: 'batch',
    title: 'five items by count: the odd one waits for the end',
    label: 'batch({ maxSize: 2, maxWaitMs: Infinity })',
    inputs: { source:        'A 9ms B 29ms C 19ms D 29ms E 49ms |' },
    expected:                '10ms x 49ms y 79ms (z|)',
    values: { x: ['A', 'B'], y: ['C', 'D'], z: ['E'] },
    build: batched({ maxSize: 2, maxWaitMs: Infinity }),
  },
];
