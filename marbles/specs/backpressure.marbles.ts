import { BehaviorSubject, concatMap, finalize, merge, of, Subject, take, tap } from 'rxjs';
import type { BackpressureOptions } from '../../operators/index.js';
import { backpressure, CallbackError, ItemTooHeavyError, OverflowError } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const fault = new Error('the source broke');

/** The levels of `ready`. */
const values = { t: true, f: false };

/** Digits are their own weight: '3' weighs 3. */
const weigh = Number;

type Options = Omit<BackpressureOptions<string>, 'ready'>;

/** `ready` is an input of the drawing. */
const gated =
  (options?: Options): MarbleSpec['build'] =>
  ({ input }) =>
    input('source').pipe(backpressure({ ready: input<boolean>('ready'), ...options }));

/** The consumer is always ready. */
const open =
  (options?: Options): MarbleSpec['build'] =>
  ({ input }) =>
    input('source').pipe(backpressure({ ready: of(true), ...options }));

/** The consumer works on one item at a time: a call that takes as long as its inner stream. */
const calling =
  (options?: Options): MarbleSpec['build'] =>
  ({ input, inner }) => {
    const ready = new BehaviorSubject(true);
    return input('source').pipe(
      backpressure({ ready, ...options }),
      tap(() => {
        ready.next(false);
      }),
      concatMap((item) =>
        inner(item).pipe(
          finalize(() => {
            ready.next(true);
          }),
        ),
      ),
    );
  };

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'backpressure',
    title: 'emits items while the consumer is ready, and lets them wait while it is busy',
    shows: 'many',
    label: 'backpressure({ ready })',
    inputs: { source:        '-a-b-c-d-------e-|',
              ready:         't---f-----t-------' },
    subscriptions: { source: '^----------------!',
                     ready:  '^----------------!' },
    expected:                '-a-b------(cd)-e-|',
    values,
    cover: true,
    build: gated(),
  },

  // What every operator must answer for.
  {
    operator: 'backpressure',
    title: 'waits for a source that never emits',
    shows: 'never',
    label: 'backpressure({ ready: of(true) })',
    inputs: { source:        '-' },
    subscriptions: { source: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: open(),
  },
  {
    operator: 'backpressure',
    title: 'completes with an empty source, also while the consumer is busy',
    shows: 'empty',
    label: 'backpressure({ ready })',
    inputs: { source:        '---|',
              ready:         'f---' },
    subscriptions: { source: '^--!',
                     ready:  '^--!' },
    expected:                '---|',
    values,
    build: gated(),
  },
  {
    operator: 'backpressure',
    title: 'keeps a single item for a consumer that is not ready yet, and completes after it',
    shows: 'one',
    label: 'backpressure({ ready })',
    inputs: { source:        '-a-|',
              ready:         '------t' },
    subscriptions: { source: '^--!',
                     ready:  '^-----!' },
    expected:                '------(a|)',
    values,
    build: gated(),
  },
  {
    operator: 'backpressure',
    title: 'drops waiting items at the error of the source, and errors at once',
    shows: 'error',
    label: 'backpressure({ ready })',
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
    operator: 'backpressure',
    title: "emits waiting items before the error of the source with onSourceError 'flush'",
    label: "backpressure({ ready, onSourceError: 'flush' })",
    inputs: { source:        '-a-b-#',
              ready:         't-f-----t' },
    subscriptions: { source: '^----!',
                     ready:  '^-------!' },
    expected:                '-a------(b#)',
    values,
    error: fault,
    build: gated({ onSourceError: 'flush' }),
  },
  {
    operator: 'backpressure',
    title: 'drops waiting items when the consumer leaves',
    shows: 'early leave',
    label: 'backpressure({ ready })',
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
    operator: 'backpressure',
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'backpressure({ ready: of(true) }), take(2)',
    inputs: { source:        '(abcdef|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(ab|)',
    synchronous: ['source'],
    build: ({ input }) => input('source').pipe(backpressure({ ready: of(true) }), take(2)),
  },
  {
    operator: 'backpressure',
    title: 'knows the level before a synchronous source starts',
    label: 'backpressure({ ready, maxQueued: 1 })',
    inputs: { source:        '(abc|)',
              ready:         't' },
    subscriptions: { source: '(^!)',
                     ready:  '(^!)' },
    expected:                '(abc|)',
    values,
    synchronous: ['source', 'ready'],
    build: gated({ maxQueued: 1 }),
  },
  {
    operator: 'backpressure',
    title: 'turns a throwing callback into an error, at once',
    shows: 'throwing callback',
    label: 'backpressure({ ready, weigh: throwsAtC })',
    inputs: { source:        '-a-b-c-d|',
              ready:         't-f------' },
    subscriptions: { source: '^----!',
                     ready:  '^----!' },
    expected:                '-a---#',
    values,
    error: new CallbackError('backpressure', 'weigh', 'threw', fault),
    build: gated({ weigh: (item) => { if (item === 'c') throw fault; return 1; } }),
  },
  {
    operator: 'backpressure',
    title: 'queues items that the consumer sends back behind waiting items',
    shows: 're-entrant source',
    label: 'backpressure({ ready }), the consumer answers a with c and d',
    inputs: { source:        '-a-b----',
              ready:         '-----t--' },
    expected:                '-----(abcd)',
    values,
    build: ({ input }) => {
      const loop = new Subject<string>();
      const answer = (item: string): void => {
        if (item === 'a') ['c', 'd'].forEach((back) => { loop.next(back); });
      };
      return merge(input('source'), loop).pipe(backpressure({ ready: input<boolean>('ready') }), tap(answer));
    },
  },

  // The level.
  {
    operator: 'backpressure',
    title: 'looks at the level after every item: a consumer that says so gets one at a time',
    label: 'backpressure({ ready }), concatMap(call)',
    inputs: { source:        '-abc--------------|' },
    inners: { a: '----A|',
              b: '----B|',
              c: '----C|' },
    subscriptions: { a:      '-^----!', b: '------^----!', c: '-----------^----!' },
    expected:                '-----A----B----C--|',
    build: calling(),
  },
  {
    operator: 'backpressure',
    title: 'keeps the last level when ready completes',
    label: 'backpressure({ ready })',
    inputs: { source:        '-a-b---c-|',
              ready:         '--(t|)' },
    subscriptions: { source: '^--------!',
                     ready:  '^-!' },
    expected:                '--ab---c-|',
    values,
    build: gated(),
  },
  {
    operator: 'backpressure',
    title: 'errors with ready, at once',
    label: "backpressure({ ready, onSourceError: 'flush' })",
    inputs: { source:        '-a-b---c-|',
              ready:         't-f--#' },
    subscriptions: { source: '^----!',
                     ready:  '^----!' },
    expected:                '-a---#',
    values,
    error: fault,
    build: gated({ onSourceError: 'flush' }),
  },

  // The bound.
  {
    operator: 'backpressure',
    title: 'errors at the item that exceeds maxQueued',
    label: 'backpressure({ ready, maxQueued: 2 })',
    inputs: { source:        '-a-b-c-d-|',
              ready:         'f---------' },
    subscriptions: { source: '^----!',
                     ready:  '^----!' },
    expected:                '-----#',
    values,
    error: new OverflowError('backpressure', 2, 'error'),
    build: gated({ maxQueued: 2 }),
  },
  {
    operator: 'backpressure',
    title: 'drops the oldest to make room',
    label: "backpressure({ ready, maxQueued: 2, overflow: 'dropOldest' })",
    inputs: { source:        '-a-b-c-d-----|',
              ready:         'f--------t----' },
    expected:                '---------(cd)|',
    values,
    build: gated({ maxQueued: 2, overflow: 'dropOldest' }),
  },
  {
    operator: 'backpressure',
    title: 'drops the newest',
    label: "backpressure({ ready, maxQueued: 2, overflow: 'dropNewest' })",
    inputs: { source:        '-a-b-c-d-----|',
              ready:         'f--------t----' },
    expected:                '---------(ab)|',
    values,
    build: gated({ maxQueued: 2, overflow: 'dropNewest' }),
  },
  {
    operator: 'backpressure',
    title: 'drops all that waits in favour of the newest',
    label: "backpressure({ ready, maxQueued: 2, overflow: 'latest' })",
    inputs: { source:        '-a-b-c-------|',
              ready:         'f--------t----' },
    expected:                '---------c---|',
    values,
    build: gated({ maxQueued: 2, overflow: 'latest' }),
  },
  {
    operator: 'backpressure',
    title: 'gives a slow call the newest item when it is done',
    label: "backpressure({ ready, maxQueued: 1, overflow: 'latest' }), concatMap(call)",
    inputs: { source:        '-ab-c---d---------|' },
    inners: { a: '----A|',
              c: '----C|',
              d: '----D|' },
    subscriptions: { a:      '-^----!', c: '------^----!', d: '-----------^----!' },
    expected:                '-----A----C----D--|',
    build: calling({ maxQueued: 1, overflow: 'latest' }),
  },
  {
    operator: 'backpressure',
    title: 'passes items only while the consumer is idle with maxQueued 0',
    label: "backpressure({ ready, maxQueued: 0, overflow: 'dropNewest' })",
    inputs: { source:        '-a-b-c-d-e-|',
              ready:         't---f---t---' },
    expected:                '-a-b-----e-|',
    values,
    build: gated({ maxQueued: 0, overflow: 'dropNewest' }),
  },

  // Weight. Digits weigh what they say.
  {
    operator: 'backpressure',
    title: 'drops as many as the weight of the newcomer needs',
    label: "backpressure({ ready, maxWeight: 5, weigh, overflow: 'dropOldest' })",
    inputs: { source:        '-1-2-2-3-----|',
              ready:         'f--------t----' },
    expected:                '---------(23)|',
    values,
    build: gated({ maxWeight: 5, weigh, overflow: 'dropOldest' }),
  },
  {
    operator: 'backpressure',
    title: 'errors at an item that could not even wait alone',
    label: 'backpressure({ ready, maxWeight: 5, weigh })',
    inputs: { source:        '-1-9-|',
              ready:         'f-----' },
    expected:                '---#',
    values,
    error: new ItemTooHeavyError('backpressure', 9, 5),
    build: gated({ maxWeight: 5, weigh }),
  },
  {
    operator: 'backpressure',
    title: 'drops an item that could not even wait alone, and keeps the waiting items',
    label: "backpressure({ ready, maxWeight: 5, weigh, overflow: 'dropOldest' })",
    inputs: { source:        '-1-9-2-------|',
              ready:         'f--------t----' },
    expected:                '---------(12)|',
    values,
    build: gated({ maxWeight: 5, weigh, overflow: 'dropOldest' }),
  },
];
