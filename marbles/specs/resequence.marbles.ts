import { merge, Subject, take, tap } from 'rxjs';
import type { ResequenceOptions } from '../../operators/index.js';
import { CallbackError, resequence, SequenceError } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const fault = new Error('the source broke');

/** Digits are their own number. */
const sequence = Number;

const ordered = (options: ResequenceOptions = {}): MarbleSpec['build'] => ({ input }) => input('source').pipe(resequence(sequence, options));

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'resequence',
    title: 'holds an item until those before it have come',
    shows: 'many',
    label: 'resequence(sequence)',
    inputs: { source:        '-0-2-3-1-----4-|' },
    subscriptions: { source: '^--------------!' },
    expected:                '-0-----(123)-4-|',
    cover: true,
    build: ordered(),
  },

  // What every operator must answer for.
  {
    operator: 'resequence',
    title: 'waits for a source that never emits',
    shows: 'never',
    label: 'resequence(sequence)',
    inputs: { source:        '-' },
    subscriptions: { source: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: ordered(),
  },
  {
    operator: 'resequence',
    title: 'completes with an empty source',
    shows: 'empty',
    label: 'resequence(sequence)',
    inputs: { source:        '---|' },
    subscriptions: { source: '^--!' },
    expected:                '---|',
    build: ordered(),
  },
  {
    operator: 'resequence',
    title: 'emits a single item at once',
    shows: 'one',
    label: 'resequence(sequence)',
    inputs: { source:        '-0--|' },
    subscriptions: { source: '^---!' },
    expected:                '-0--|',
    build: ordered(),
  },
  {
    operator: 'resequence',
    title: 'drops waiting items at the error of the source',
    shows: 'error',
    label: 'resequence(sequence)',
    inputs: { source:        '-0-2-#' },
    subscriptions: { source: '^----!' },
    expected:                '-0---#',
    error: fault,
    build: ordered(),
  },
  {
    operator: 'resequence',
    title: "emits waiting items before the error of the source with onSourceError 'flush'",
    label: "resequence(sequence, { onSourceError: 'flush' })",
    inputs: { source:        '-0-4-2-#' },
    subscriptions: { source: '^------!' },
    expected:                '-0-----(24#)',
    error: fault,
    build: ordered({ onSourceError: 'flush' }),
  },
  {
    operator: 'resequence',
    title: 'drops waiting items when the consumer leaves',
    shows: 'early leave',
    label: 'resequence(sequence, { maxWaitMs: 9 })',
    inputs: { source:        '-0-2-----1--|' },
    subscriptions: { source: '^-----!' },
    expected:                '-0-----------',
    unsub:                   '^-----!',
    build: ordered({ maxWaitMs: 9 }),
  },
  {
    operator: 'resequence',
    title: 'leaves a synchronous source as soon as the consumer has enough, also in the middle of what waited',
    shows: 'synchronous source',
    label: 'resequence(sequence), take(2)',
    inputs: { source:        '(210345|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(01|)',
    synchronous: ['source'],
    build: ({ input }) => input('source').pipe(resequence(sequence), take(2)),
  },
  {
    operator: 'resequence',
    title: 'turns a throw of sequence into an error',
    shows: 'throwing callback',
    label: 'resequence(throwsAt3)',
    inputs: { source:        '-0-2-3-1|' },
    subscriptions: { source: '^----!' },
    expected:                '-0---#',
    error: new CallbackError('resequence', 'sequence', 'threw', fault),
    build: ({ input }) => input('source').pipe(resequence((item) => { if (item === '3') throw fault; return Number(item); })),
  },
  {
    operator: 'resequence',
    title: 'refuses a number that is not whole',
    label: 'resequence(sequence)',
    inputs: { source:        '-0-x-1-|' },
    subscriptions: { source: '^--!' },
    expected:                '-0-#',
    error: new CallbackError('resequence', 'sequence', 'must return a whole number, returned NaN'),
    build: ordered(),
  },
  {
    operator: 'resequence',
    title: 'puts what the consumer sends back into its place',
    shows: 're-entrant source',
    label: 'resequence(sequence), the consumer answers 0 with 3 and 1',
    inputs: { source:        '-2-0-------|' },
    expected:                '---(0123)--|',
    build: ({ input }) => {
      const loop = new Subject<string>();
      const answer = (item: string): void => {
        if (item !== '0') return;
        loop.next('3');
        loop.next('1');
      };
      return merge(input('source').pipe(tap({ complete: () => { loop.complete(); } })), loop).pipe(resequence(sequence), tap(answer));
    },
  },

  // Gaps.
  {
    operator: 'resequence',
    title: 'errors when an item has waited for too long',
    label: 'resequence(sequence, { maxWaitMs: 5 })',
    inputs: { source:        '-0-3--4-----' },
    subscriptions: { source: '^-------!' },
    expected:                '-0------#',
    error: new SequenceError('resequence', 1, 2, 2),
    build: ordered({ maxWaitMs: 5 }),
  },
  {
    operator: 'resequence',
    title: "continues without the missing items with onGap 'skip', and drops them when they come late",
    label: "resequence(sequence, { maxWaitMs: 5, onGap: 'skip' })",
    inputs: { source:        '-0-2-3--------1--4--|' },
    subscriptions: { source: '^-------------------!' },
    expected:                '-0------(23)-----4--|',
    build: ordered({ maxWaitMs: 5, onGap: 'skip' }),
  },
  {
    operator: 'resequence',
    title: 'lets no item wait longer than maxWaitMs, however many gaps are before it',
    label: "resequence(sequence, { maxWaitMs: 6, onGap: 'skip' })",
    inputs: { source:        '-0-6--2-4-----------|' },
    expected:                '-0-------(246)------|',
    build: ordered({ maxWaitMs: 6, onGap: 'skip' }),
  },
  {
    operator: 'resequence',
    title: 'counts the wait of a second gap from the first item behind it',
    label: "resequence(sequence, { maxWaitMs: 6, onGap: 'skip' })",
    inputs: { source:        '-0-2--4---1-------|' },
    expected:                '-0-------2--4-----|',
    build: ordered({ maxWaitMs: 6, onGap: 'skip' }),
  },
  {
    operator: 'resequence',
    title: 'errors when too many items wait',
    label: 'resequence(sequence, { maxQueued: 2 })',
    inputs: { source:        '-0-2-3-4-1|' },
    subscriptions: { source: '^------!' },
    expected:                '-0-----#',
    error: new SequenceError('resequence', 1, 1, 3),
    build: ordered({ maxQueued: 2 }),
  },
  {
    operator: 'resequence',
    title: "skips the first gap only when too many items wait with onGap 'skip'",
    label: "resequence(sequence, { maxQueued: 2, onGap: 'skip' })",
    inputs: { source:        '-0-2-4-3--6-8----5----|' },
    expected:                '-0-----(234)-----(56)-(8|)',
    build: ordered({ maxQueued: 2, onGap: 'skip' }),
  },
  {
    operator: 'resequence',
    title: 'waits for nothing with maxQueued 0',
    label: "resequence(sequence, { maxQueued: 0, onGap: 'skip' })",
    inputs: { source:        '-0-2-1-3-|' },
    expected:                '-0-2---3-|',
    build: ordered({ maxQueued: 0, onGap: 'skip' }),
  },
  {
    operator: 'resequence',
    title: 'errors at the end of a source that left a gap',
    label: 'resequence(sequence)',
    inputs: { source:        '-0-2-|' },
    expected:                '-0---#',
    error: new SequenceError('resequence', 1, 1, 1),
    build: ordered(),
  },
  {
    operator: 'resequence',
    title: "emits waiting items at the end of a source that left gaps with onGap 'skip'",
    label: "resequence(sequence, { onGap: 'skip' })",
    inputs: { source:        '-0-5-2-|' },
    expected:                '-0-----(25|)',
    build: ordered({ onGap: 'skip' }),
  },
  {
    operator: 'resequence',
    title: 'begins at 0, and drops what is before it',
    label: 'resequence((item) => sequence(item) - 3)',
    inputs: { source:        '-4-2-3---5-|' },
    expected:                '-----(34)5-|',
    build: ({ input }) => input('source').pipe(resequence((item) => sequence(item) - 3)),
  },

  // Duplicates.
  {
    operator: 'resequence',
    title: 'drops a number that came before, whether it has gone or waits',
    label: 'resequence(sequence)',
    inputs: { source:        '-0-0-2-2-1---1-|' },
    expected:                '-0-------(12)--|',
    build: ordered(),
  },
];
