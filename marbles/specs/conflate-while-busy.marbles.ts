import { BehaviorSubject, concatMap, finalize, merge, of, Subject, take, tap } from 'rxjs';
import type { ConflateWhileBusyOptions } from '../../operators/index.js';
import { CallbackError, conflateWhileBusy, ItemTooHeavyError, OverflowError } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const fault = new Error('the source broke');

/** The levels of `ready`. */
const values = { t: true, f: false };

/** Digits are their own weight: '3' weighs 3. */
const weigh = Number;

type Options = Partial<Omit<ConflateWhileBusyOptions<string, string>, 'ready'>>;

/** Letters are joined into a word. */
const joined = {
  seed: (letter: string) => letter,
  merge: (word: string, letter: string) => word + letter,
};

/** `ready` is an input of the drawing. */
const gated =
  (options?: Options): MarbleSpec['build'] =>
  ({ input }) =>
    input('source').pipe(conflateWhileBusy({ ready: input<boolean>('ready'), ...joined, ...options }));

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'conflateWhileBusy',
    title: 'merges items that arrive while the consumer is busy into one',
    shows: 'many',
    label: 'conflateWhileBusy({ ready, seed, merge })',
    inputs: { source:        '-a--b-c-d----e--|',
              ready:         't--f------t------' },
    subscriptions: { source: '^---------------!',
                     ready:  '^---------------!' },
    expected:                '-a--------x--e--|',
    values: { ...values, x: 'bcd' },
    cover: true,
    build: gated(),
  },

  // What every operator must answer for.
  {
    operator: 'conflateWhileBusy',
    title: 'waits for a source that never emits, and emits nothing when the consumer gets ready',
    shows: 'never',
    label: 'conflateWhileBusy({ ready, seed, merge })',
    inputs: { source:        '-',
              ready:         'f--t' },
    subscriptions: { source: '^ 999ms !',
                     ready:  '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    values,
    build: gated(),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'completes with an empty source, also while the consumer is busy',
    shows: 'empty',
    label: 'conflateWhileBusy({ ready, seed, merge })',
    inputs: { source:        '---|',
              ready:         'f---' },
    subscriptions: { source: '^--!',
                     ready:  '^--!' },
    expected:                '---|',
    values,
    build: gated(),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'keeps a single item for a consumer that is not ready yet, and completes after it',
    shows: 'one',
    label: 'conflateWhileBusy({ ready, seed, merge })',
    inputs: { source:        '-a-|',
              ready:         '------t' },
    subscriptions: { source: '^--!',
                     ready:  '^-----!' },
    expected:                '------(a|)',
    values,
    build: gated(),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'drops the aggregate at the error of the source, and errors at once',
    shows: 'error',
    label: 'conflateWhileBusy({ ready, seed, merge })',
    inputs: { source:        '-a-b-#',
              ready:         't-f---' },
    subscriptions: { source: '^----!',
                     ready:  '^----!' },
    expected:                '-a---#',
    values,
    error: fault,
    build: gated(),
  },
  {
    operator: 'conflateWhileBusy',
    title: "emits the aggregate before the error of the source with onSourceError 'flush'",
    label: "conflateWhileBusy({ ready, seed, merge, onSourceError: 'flush' })",
    inputs: { source:        '-abc-#',
              ready:         'f-------t' },
    subscriptions: { source: '^----!',
                     ready:  '^-------!' },
    expected:                '--------(x#)',
    values: { ...values, x: 'abc' },
    error: fault,
    build: gated({ onSourceError: 'flush' }),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'drops the aggregate when the consumer leaves',
    shows: 'early leave',
    label: 'conflateWhileBusy({ ready, seed, merge })',
    inputs: { source:        '-a-b-----c--|',
              ready:         '--------t---' },
    subscriptions: { source: '^-----!',
                     ready:  '^-----!' },
    expected:                '-------------',
    unsub:                   '^-----!',
    values,
    build: gated(),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'conflateWhileBusy({ ready: of(true), seed, merge }), take(2)',
    inputs: { source:        '(abcdef|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(ab|)',
    synchronous: ['source'],
    build: ({ input }) => input('source').pipe(conflateWhileBusy({ ready: of(true), ...joined }), take(2)),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'makes one of a synchronous source that finds the consumer busy',
    label: 'conflateWhileBusy({ ready, seed, merge })',
    inputs: { source:        '(abc|)',
              ready:         '---t' },
    expected:                '---(x|)',
    values: { ...values, x: 'abc' },
    synchronous: ['source'],
    build: gated(),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'turns a throwing callback into an error, at once',
    shows: 'throwing callback',
    label: 'conflateWhileBusy({ ready, seed, merge: throwsAtC })',
    inputs: { source:        '-a-b-c-d|',
              ready:         'f--------' },
    subscriptions: { source: '^----!',
                     ready:  '^----!' },
    expected:                '-----#',
    values,
    error: new CallbackError('conflateWhileBusy', 'merge', 'threw', fault),
    build: gated({ merge: (word, letter) => { if (letter === 'c') throw fault; return word + letter; } }),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'merges what the consumer sends back while it is handed something',
    shows: 're-entrant source',
    label: 'conflateWhileBusy({ ready: of(true), seed, merge }), the consumer answers a with b and c',
    inputs: { source:        '-a---' },
    expected:                '-(ax)',
    values: { x: 'bc' },
    build: ({ input }) => {
      const loop = new Subject<string>();
      const answer = (word: string): void => {
        if (word === 'a') ['b', 'c'].forEach((letter) => { loop.next(letter); });
      };
      return merge(input('source'), loop).pipe(conflateWhileBusy({ ready: of(true), ...joined }), tap(answer));
    },
  },

  // The level.
  {
    operator: 'conflateWhileBusy',
    title: 'gives a slow call everything that came during the last one',
    label: 'conflateWhileBusy({ ready, seed, merge }), concatMap(call)',
    inputs: { source:        '-abc---d----------|' },
    inners: { a:   '----A|',
              bc:  '----B|',
              d:   '----D|' },
    subscriptions: { a:      '-^----!', bc: '------^----!', d: '-----------^----!' },
    expected:                '-----A----B----D--|',
    build: ({ input, inner }) => {
      const ready = new BehaviorSubject(true);
      return input('source').pipe(
        conflateWhileBusy({ ready, ...joined }),
        tap(() => { ready.next(false); }),
        concatMap((word) => inner(word).pipe(finalize(() => { ready.next(true); }))),
      );
    },
  },
  {
    operator: 'conflateWhileBusy',
    title: 'keeps the last level when ready completes',
    label: 'conflateWhileBusy({ ready, seed, merge })',
    inputs: { source:        '-ab---c-|',
              ready:         '---(t|)' },
    subscriptions: { source: '^-------!',
                     ready:  '^--!' },
    expected:                '---x--c-|',
    values: { ...values, x: 'ab' },
    build: gated(),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'errors with ready, at once',
    label: "conflateWhileBusy({ ready, seed, merge, onSourceError: 'flush' })",
    inputs: { source:        '-a-b---c-|',
              ready:         '-----#' },
    subscriptions: { source: '^----!',
                     ready:  '^----!' },
    expected:                '-----#',
    values,
    error: fault,
    build: gated({ onSourceError: 'flush' }),
  },

  // The bound. Digits weigh what they say.
  {
    operator: 'conflateWhileBusy',
    title: 'errors at an item that the aggregate cannot take',
    label: 'conflateWhileBusy({ ready, seed, merge, maxWeight: 5, weigh })',
    inputs: { source:        '-2-3-1-|',
              ready:         'f-------' },
    subscriptions: { source: '^----!',
                     ready:  '^----!' },
    expected:                '-----#',
    values,
    error: new OverflowError('conflateWhileBusy', 5, 'error', 'maxWeight'),
    build: gated({ maxWeight: 5, weigh }),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'begins afresh with an item that the aggregate cannot take',
    label: "conflateWhileBusy({ ready, seed, merge, maxWeight: 5, weigh, overflow: 'dropOldest' })",
    inputs: { source:        '-2-3-1-2---|',
              ready:         'f--------t--' },
    expected:                '---------x-|',
    values: { ...values, x: '12' },
    build: gated({ maxWeight: 5, weigh, overflow: 'dropOldest' }),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'leaves out an item that the aggregate cannot take',
    label: "conflateWhileBusy({ ready, seed, merge, maxWeight: 5, weigh, overflow: 'dropNewest' })",
    inputs: { source:        '-2-4-1-2---|',
              ready:         'f--------t--' },
    expected:                '---------x-|',
    values: { ...values, x: '212' },
    build: gated({ maxWeight: 5, weigh, overflow: 'dropNewest' }),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'errors at an item that could not even wait alone',
    label: 'conflateWhileBusy({ ready, seed, merge, maxWeight: 5, weigh })',
    inputs: { source:        '-1-9-|',
              ready:         'f-----' },
    expected:                '---#',
    values,
    error: new ItemTooHeavyError('conflateWhileBusy', 9, 5),
    build: gated({ maxWeight: 5, weigh }),
  },
  {
    operator: 'conflateWhileBusy',
    title: 'leaves out an item that could not even wait alone, and keeps the aggregate',
    label: "conflateWhileBusy({ ready, seed, merge, maxWeight: 5, weigh, overflow: 'dropOldest' })",
    inputs: { source:        '-1-9-2---|',
              ready:         'f------t--' },
    expected:                '-------x-|',
    values: { ...values, x: '12' },
    build: gated({ maxWeight: 5, weigh, overflow: 'dropOldest' }),
  },
];
