import { merge, Subject, take, tap } from 'rxjs';
import type { CoalesceOptions } from '../../operators/index.js';
import { CallbackError, coalesce } from '../../operators/index.js';
import type { MarbleSpec, SpecKit } from '../spec.js';

const fault = new Error('the source broke');

/** What letters become when they are merged. */
const values = { x: 'ab', y: 'cd', z: 'abc', w: 'DE' };

const join = (first: string, next: string): string => first + next;

/** Capitals belong to another message than small letters. */
const sameCase = (pending: string, next: string): boolean => isCapital(pending) === isCapital(next);
const isCapital = (text: string): boolean => text === text.toUpperCase();

const throwsAt =
  (letter: string) =>
  (item: string): never | false => {
    if (item === letter) throw fault;
    return false;
  };

const merged = (options: Partial<CoalesceOptions<string>> = {}): MarbleSpec['build'] => ({ input }) => input('source').pipe(coalesce({ merge: join, ...options }));

/** The consumer sends `answers` into the source while it is handed `question`. */
const fedBack = ({ input }: SpecKit, options: Partial<CoalesceOptions<string>>, question: string, answers: readonly string[]) => {
  const loop = new Subject<string>();
  const answer = (text: string): void => {
    if (text === question) answers.forEach((item) => { loop.next(item); });
  };
  return merge(input('source'), loop).pipe(coalesce({ merge: join, ...options }), tap(answer));
};

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'coalesce',
    title: 'merges items that arrive within the wait of the first',
    shows: 'many',
    label: 'coalesce({ merge, maxWaitMs: 5 })',
    inputs: { source:        '-a-b-----c-d-|' },
    subscriptions: { source: '^------------!' },
    expected:                '------x------(y|)',
    values,
    cover: true,
    options: { maxWaitMs: 5 },
    build: (kit) => merged(kit.options)(kit),
  },

  // What every operator must answer for.
  {
    operator: 'coalesce',
    title: 'waits for a source that never emits',
    shows: 'never',
    label: 'coalesce({ merge })',
    inputs: { source:        '-' },
    subscriptions: { source: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: merged(),
  },
  {
    operator: 'coalesce',
    title: 'completes with an empty source, without an item',
    shows: 'empty',
    label: 'coalesce({ merge })',
    inputs: { source:        '---|' },
    subscriptions: { source: '^--!' },
    expected:                '---|',
    build: merged(),
  },
  {
    operator: 'coalesce',
    title: 'emits a single item as it is when the source completes',
    shows: 'one',
    label: 'coalesce({ merge })',
    inputs: { source:        '-a--|' },
    subscriptions: { source: '^---!' },
    expected:                '----(a|)',
    build: merged(),
  },
  {
    operator: 'coalesce',
    title: 'emits waiting items before the error of the source',
    shows: 'error',
    label: 'coalesce({ merge })',
    inputs: { source:        '-a-b-#' },
    subscriptions: { source: '^----!' },
    expected:                '-----(x#)',
    values,
    error: fault,
    build: merged(),
  },
  {
    operator: 'coalesce',
    title: "drops waiting items at the error of the source with onSourceError 'abort'",
    label: "coalesce({ merge, onSourceError: 'abort' })",
    inputs: { source:        '-a-b-#' },
    subscriptions: { source: '^----!' },
    expected:                '-----#',
    error: fault,
    build: merged({ onSourceError: 'abort' }),
  },
  {
    operator: 'coalesce',
    title: 'drops waiting items when the consumer leaves',
    shows: 'early leave',
    label: 'coalesce({ merge })',
    inputs: { source:        '-a-b-----c--|' },
    subscriptions: { source: '^-----!' },
    expected:                '-------------',
    unsub:                   '^-----!',
    build: merged(),
  },
  {
    operator: 'coalesce',
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'coalesce({ merge, maxSize: 2 }), take(1)',
    inputs: { source:        '(abcdef|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(x|)',
    values,
    synchronous: ['source'],
    build: ({ input }) => input('source').pipe(coalesce({ merge: join, maxSize: 2 }), take(1)),
  },
  {
    operator: 'coalesce',
    title: 'turns a merge that throws into an error, after waiting items',
    shows: 'throwing callback',
    label: 'coalesce({ merge: throwsAtC })',
    inputs: { source:        '-a-b-c-d|' },
    subscriptions: { source: '^----!' },
    expected:                '-----(x#)',
    values,
    error: new CallbackError('coalesce', 'merge', 'threw', fault),
    build: merged({ merge: (first, next) => { throwsAt('c')(next); return first + next; } }),
  },
  {
    operator: 'coalesce',
    title: 'puts what the consumer sends back behind what it was handed',
    shows: 're-entrant source',
    label: 'coalesce({ merge, maxSize: 2 }), the consumer answers ab with c and d',
    inputs: { source:        '-ab--' },
    expected:                '--(xy)',
    values,
    build: (kit) => fedBack(kit, { maxSize: 2 }, 'ab', ['c', 'd']),
  },
  {
    operator: 'coalesce',
    title: 'keeps what the consumer sends back behind the item that did not fit',
    label: 'coalesce({ merge, compatible: sameCase }), the consumer answers ab with E',
    inputs: { source:        '-abD--' },
    expected:                '---x 15ms w',
    values,
    build: (kit) => fedBack(kit, { compatible: sameCase }, 'ab', ['E']),
  },

  // Order.
  {
    operator: 'coalesce',
    title: 'merges neighbours only: another item is emitted after the waiting ones',
    label: 'coalesce({ merge, compatible: sameCase, maxWaitMs: 9 })',
    inputs: { source:        '-a-b-D-E-c-----------|' },
    subscriptions: { source: '^--------------------!' },
    expected:                '-----x---w--------c--|',
    values,
    build: merged({ compatible: sameCase, maxWaitMs: 9 }),
  },
  {
    operator: 'coalesce',
    title: 'emits at once items that never wait, behind waiting items',
    label: 'coalesce({ merge, passThrough: isCapital })',
    inputs: { source:        '-a-b-F---G-c-d-|' },
    expected:                '-----(xF)G-----(y|)',
    values,
    build: merged({ passThrough: isCapital }),
  },
  {
    operator: 'coalesce',
    title: 'turns a throw of compatible into an error, after waiting items',
    label: 'coalesce({ merge, compatible: throwsAtC })',
    inputs: { source:        '-a-b-c-d|' },
    subscriptions: { source: '^----!' },
    expected:                '-----(x#)',
    values,
    error: new CallbackError('coalesce', 'compatible', 'threw', fault),
    build: merged({ compatible: (_pending, next) => !throwsAt('c')(next) }),
  },
  {
    operator: 'coalesce',
    title: 'turns a throw of passThrough into an error, after waiting items',
    label: 'coalesce({ merge, passThrough: throwsAtC })',
    inputs: { source:        '-a-b-c-d|' },
    subscriptions: { source: '^----!' },
    expected:                '-----(x#)',
    values,
    error: new CallbackError('coalesce', 'passThrough', 'threw', fault),
    build: merged({ passThrough: throwsAt('c') }),
  },

  // Time.
  {
    operator: 'coalesce',
    title: 'counts the wait from the first item; later ones do not prolong it',
    label: 'coalesce({ merge, maxWaitMs: 5 })',
    inputs: { source:        '-a-b-c--d--------|' },
    expected:                '------z------d---|',
    values,
    build: merged({ maxWaitMs: 5 }),
  },
  {
    operator: 'coalesce',
    title: 'gathers one frame of the clock with maxWaitMs 0',
    label: 'coalesce({ merge, maxWaitMs: 0 })',
    inputs: { source:        '(abc)--d|' },
    expected:                'z------d|',
    values,
    synchronous: ['source'],
    build: merged({ maxWaitMs: 0 }),
  },
  {
    operator: 'coalesce',
    title: 'waits for the end with maxWaitMs Infinity',
    label: 'coalesce({ merge, maxWaitMs: Infinity })',
    inputs: { source:        '-a 999ms b|' },
    expected:                '-- 1000ms (x|)',
    values,
    build: merged({ maxWaitMs: Infinity }),
  },

  {
    operator: 'coalesce',
    title: 'merges no more than maxSize items',
    label: 'coalesce({ merge, maxSize: 2 })',
    inputs: { source:        '-abcd-e-|' },
    expected:                '--x-y---(e|)',
    values,
    build: merged({ maxSize: 2 }),
  },
];
