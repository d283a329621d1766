import { debounceTime, groupBy, map, merge, mergeMap, Subject, take, tap } from 'rxjs';
import type { SwitchLatestOptions } from '../../operators/index.js';
import { CallbackError, switchLatest } from '../../operators/index.js';
import type { MarbleSpec, SpecKit } from '../spec.js';

const fault = new Error('the source broke');
const badTool = new Error('the tool broke');

/** Every item calls the inner stream named after it. */
const called = (options?: Omit<SwitchLatestOptions<string>, 'errors'>): MarbleSpec['build'] => ({ input, inner }) =>
  input('source').pipe(switchLatest((item) => inner(item), options));

/** The key of 'A' and 'a' is 'a'. */
const key = (item: string): string => item.toLowerCase();

/** The consumer sends `answers` into the source while it is handed `question`. */
const fedBack = ({ input, inner }: SpecKit, question: string, answers: readonly string[]) => {
  const loop = new Subject<string>();
  const answer = (value: string): void => {
    if (value === question) answers.forEach((item) => { loop.next(item); });
  };
  return merge(input('source'), loop).pipe(switchLatest((item) => inner(item)), tap(answer));
};

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'switchLatest',
    title: 'stops the old call for the newest',
    shows: 'many',
    label: 'switchLatest(call)',
    inputs: { source:        '-a-----b------|' },
    inners: {        a:       '--1--2--3|     ',
                     b:             '--4--5|   ' },
    subscriptions: { source: '^-------------!',
                     a:      '-^-----!       ',
                     b:      '-------^-----! ' },
    expected:                '---1--2--4--5-|',
    cover: true,
    build: called(),
  },

  // What every operator must answer for.
  {
    operator: 'switchLatest',
    title: 'waits for a source that never emits',
    shows: 'never',
    label: 'switchLatest(call)',
    inputs: { source:        '-' },
    subscriptions: { source: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: called(),
  },
  {
    operator: 'switchLatest',
    title: 'completes with an empty source',
    shows: 'empty',
    label: 'switchLatest(call)',
    inputs: { source:        '---|' },
    subscriptions: { source: '^--!' },
    expected:                '---|',
    build: called(),
  },
  {
    operator: 'switchLatest',
    title: 'lets the last call end after the source has completed',
    shows: 'one',
    label: 'switchLatest(call)',
    inputs: { source:        '-a--|' },
    inners: {        a:       '---1--2|' },
    subscriptions: { source: '^---!',
                     a:      '-^------!' },
    expected:                '----1--2|',
    build: called(),
  },
  {
    operator: 'switchLatest',
    title: 'aborts the call at an error of the source',
    shows: 'error',
    label: 'switchLatest(call)',
    inputs: { source:        '-a--#' },
    inners: {        a:       '-1----2|' },
    subscriptions: { source: '^---!',
                     a:      '-^--!' },
    expected:                '--1-#',
    error: fault,
    build: called(),
  },
  {
    operator: 'switchLatest',
    title: "lets the call end before the error of the source with onSourceError 'drain'",
    label: "switchLatest(call, { onSourceError: 'drain' })",
    inputs: { source:        '-a--#' },
    inners: {        a:       '-1----2|' },
    subscriptions: { source: '^---!',
                     a:      '-^------!' },
    expected:                '--1----2#',
    error: fault,
    build: called({ onSourceError: 'drain' }),
  },
  {
    operator: 'switchLatest',
    title: 'errors with the newest call',
    label: 'switchLatest(call)',
    inputs: { source:        '-a-----b--|' },
    inners: {        a:       '-1#' },
    subscriptions: { source: '^--!',
                     a:      '-^-!' },
    expected:                '--1#',
    error: badTool,
    build: called(),
  },
  {
    operator: 'switchLatest',
    title: "makes a result of every newest call, failed ones as well, with errors 'settle'; x = rejected",
    label: "switchLatest(call, { errors: 'settle' })",
    inputs: { source:        '-a---b--c----|' },
    inners: {        a:       '-1#',
                     b:           '--2-3|',
                     c:              '-4-5|' },
    subscriptions: { a:      '-^-!',
                     b:      '-----^--!',
                     c:      '--------^---!' },
    expected:                '---x--------5|',
    error: badTool,
    build: ({ input, inner }) =>
      input('source').pipe(
        switchLatest((item) => inner(item), { errors: 'settle' }),
        map((settled) => (settled.status === 'fulfilled' ? settled.value : 'x')),
      ),
  },
  {
    operator: 'switchLatest',
    title: 'aborts the call when the consumer leaves',
    shows: 'early leave',
    label: 'switchLatest(call)',
    inputs: { source:        '-a-------|' },
    inners: {        a:       '-1--2--3|' },
    subscriptions: { source: '^----!',
                     a:      '-^---!' },
    expected:                '--1---',
    unsub:                   '^----!',
    build: called(),
  },
  {
    operator: 'switchLatest',
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'switchLatest(call), take(1)',
    inputs: { source:        '(abc|)' },
    inners: {        a:      '(1234|)' },
    subscriptions: { source: '(^!)',
                     a:      '(^!)' },
    expected:                '(1|)',
    synchronous: ['source', 'a'],
    build: ({ input, inner }) => input('source').pipe(switchLatest((item) => inner(item)), take(1)),
  },
  {
    operator: 'switchLatest',
    title: 'runs only the last call of a synchronous burst to its end',
    label: 'switchLatest(call)',
    inputs: { source:        '(abc|)' },
    inners: {        a:      '-1|',
                     b:      '-2|',
                     c:      '-3|' },
    subscriptions: { source: '(^!)',
                     a:      '(^!)',
                     b:      '(^!)',
                     c:      '^-!' },
    expected:                '-3|',
    synchronous: ['source'],
    build: called(),
  },
  {
    operator: 'switchLatest',
    title: 'errors with what the call throws',
    label: 'switchLatest(throws)',
    inputs: { source:        '-a-b|' },
    subscriptions: { source: '^!' },
    expected:                '-#',
    error: badTool,
    build: ({ input }) => input('source').pipe(switchLatest(() => { throw badTool; })),
  },
  {
    operator: 'switchLatest',
    title: 'turns a throwing key into an error',
    shows: 'throwing callback',
    label: 'switchLatest(call, { key: throws })',
    inputs: { source:        '-a-b|' },
    subscriptions: { source: '^!' },
    expected:                '-#',
    error: new CallbackError('switchLatest', 'key', 'threw', fault),
    build: called({ key: () => { throw fault; } }),
  },
  {
    operator: 'switchLatest',
    title: 'starts what the consumer sends back after the value that made it do so',
    shows: 're-entrant source',
    label: 'switchLatest(call), the consumer answers 1 with b and c',
    inputs: { source:        '-a---------' },
    inners: {        a:       '--(12)3-',
                     b:       '  (45)-',
                     c:       '  ---------6-7-' },
    subscriptions: { a:      '-^-!',
                     b:      '---(^!)',
                     c:      '---^' },
    expected:                '---(145)----6-7',
    synchronous: ['b'],
    build: (kit) => fedBack(kit, '1', ['b', 'c']),
  },

  // Keys.
  {
    operator: 'switchLatest',
    title: 'switches within a key only',
    label: 'switchLatest(call, { key })',
    inputs: { source:        '-a--b--A------|' },
    inners: {        a:       '---1---2|',
                     b:          '---3---4|',
                     A:             '---5|' },
    subscriptions: { a:      '-^-----!',
                     b:      '----^-------!',
                     A:      '-------^---!' },
    expected:                '----1--3--54--|',
    build: called({ key }),
  },

  // With RxJS's own operators in front.
  {
    operator: 'switchLatest',
    title: 'behind debounceTime it starts a call only for an item that stays the newest; the old call continues meanwhile',
    label: 'debounceTime(3), switchLatest(call)',
    inputs: { source:        '-a-----b-c-------|' },
    inners: {        a:       '   -1--2--3--4|',
                     c:                 '-5|' },
    subscriptions: { a:      '----^-------!',
                     c:      '------------^-!' },
    expected:                '-----1--2--3-5---|',
    build: ({ input, inner }) => input('source').pipe(debounceTime(3), switchLatest((item) => inner(item))),
  },
  {
    operator: 'switchLatest',
    title: 'behind debounceTime for each key every key has a quiet time of its own',
    label: 'groupBy(key), mergeMap(debounceTime(3)), switchLatest(call, { key })',
    inputs: { source:        '-ab-A-----|' },
    inners: {        b:           '1|',
                     A:             '2|' },
    expected:                '-----1-2--|',
    build: ({ input, inner }) =>
      input('source').pipe(
        groupBy(key),
        mergeMap((items) => items.pipe(debounceTime(3))),
        switchLatest((item) => inner(item), { key }),
      ),
  },
];
