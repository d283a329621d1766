import { EMPTY, expand, NEVER } from 'rxjs';
import type { SettleAllOptions, Settled } from '../../operators/index.js';
import { DeadlineError, GuardRefusedError, settleAll } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const broken = new Error('the tool broke');

const origin = (index: number) => ({ input: 'abc'.charAt(index), index, id: String(index), attempts: 1 });
const value = (index: number, answer: string): Settled<string, string> => ({ status: 'fulfilled', value: answer, ...origin(index) });
const failure = (index: number, reason: unknown, attempts = 1): Settled<string, string> => ({
  status: 'rejected',
  reason,
  ...origin(index),
  attempts,
});

/** The calls a, b and c are the inner streams of their names. */
const settled = (options?: SettleAllOptions<string>, calls = ['a', 'b', 'c']): MarbleSpec['build'] => ({ inner }) =>
  settleAll(calls, (call) => inner(call), options);

const spec = (given: Omit<MarbleSpec, 'operator' | 'inputs'>): MarbleSpec => ({ operator: 'settleAll', inputs: {}, ...given });

export const specs: readonly MarbleSpec[] = [
  spec({
    title: 'has all results at once, in the order of the list, failures among them',
    shows: 'many',
    label: 'settleAll([a, b, c], call, { concurrency: 2 })',
    inners: { a:             '-----(1|)',
              b:             '--#',
              c:             '  ----(3|)' },
    subscriptions: { a:      '^----!',
                     b:      '^-!',
                     c:      '--^---!' },
    expected:                '------(r|)',
    values: { 1: '1', 3: '3', r: [value(0, '1'), failure(1, broken), value(2, '3')] },
    error: broken,
    cover: true,
    options: { concurrency: 2 },
    build: (kit) => settled(kit.options)(kit),
  }),
  spec({
    title: "stops everything at the first failure with errors 'propagate'",
    shows: 'error',
    label: "settleAll([a, b, c], call, { errors: 'propagate', concurrency: 2 })",
    inners: { a:             '-----(1|)',
              b:             '--#',
              c:             '----(3|)' },
    subscriptions: { a:      '^-!',
                     b:      '^-!',
                     c:      [] },
    expected:                '--#',
    error: broken,
    build: settled({ errors: 'propagate', concurrency: 2 }),
  }),
  spec({
    title: "has all results with errors 'propagate' when none has failed",
    label: "settleAll([a, b], call, { errors: 'propagate' })",
    inners: { a:             '---(1|)', b: '-(2|)' },
    expected:                '---(r|)',
    values: { r: [value(0, '1'), value(1, '2')] },
    build: settled({ errors: 'propagate' }, ['a', 'b']),
  }),
  spec({
    title: 'has an empty list for no calls',
    shows: 'empty',
    label: 'settleAll([], call)',
    expected:                '(r|)',
    values: { r: [] },
    build: settled({}, []),
  }),
  spec({
    title: 'makes a single call',
    shows: 'one',
    label: 'settleAll([a], call)',
    inners: { a:             '--1-2|' },
    expected:                '-----(r|)',
    values: { r: [value(0, '2')] },
    build: settled({}, ['a']),
  }),
  spec({
    title: 'waits for a call that never ends',
    shows: 'never',
    label: 'settleAll([a, b], call)',
    inners: { a:             '--(1|)', b: '-' },
    subscriptions: { b:      '^ 99ms !' },
    expected:                '-',
    unsub:                   '^ 99ms !',
    build: settled({}, ['a', 'b']),
  }),
  spec({
    title: 'cuts short what is not settled after deadlineMs',
    label: 'settleAll([a, b, c], call, { concurrency: 2, deadlineMs: 5 })',
    inners: { a:             '--(1|)',
              b:             '--------(2|)',
              c:             '  ------(3|)' },
    subscriptions: { a:      '^-!',
                     b:      '^----!',
                     c:      '--^--!' },
    expected:                '-----(r|)',
    values: { r: [value(0, '1'), failure(1, new DeadlineError('settleAll', 5, 5)), failure(2, new DeadlineError('settleAll', 5, 5))] },
    build: settled({ concurrency: 2, deadlineMs: 5 }),
  }),
  spec({
    title: 'tells which calls were not even made by deadlineMs',
    label: 'settleAll([a, b], call, { concurrency: 1, deadlineMs: 5 })',
    inners: { a:             '-', b: '(2|)' },
    subscriptions: { a:      '^----!', b: [] },
    expected:                '-----(r|)',
    values: { r: [failure(0, new DeadlineError('settleAll', 5, 5)), failure(1, new DeadlineError('settleAll', 5, 5), 0)] },
    build: settled({ concurrency: 1, deadlineMs: 5 }, ['a', 'b']),
  }),
  spec({
    title: "errors after deadlineMs with errors 'propagate'",
    label: "settleAll([a, b], call, { errors: 'propagate', deadlineMs: 5 })",
    inners: { a:             '--(1|)', b: '-' },
    subscriptions: { b:      '^----!' },
    expected:                '-----#',
    error: new DeadlineError('settleAll', 5, 5),
    build: settled({ errors: 'propagate', deadlineMs: 5 }, ['a', 'b']),
  }),
  spec({
    title: 'does not make a call that the guard refuses',
    label: "settleAll([a, b, c], call, { guard: (call) => call === 'b' ? 'not b' : true })",
    inners: { a:             '--(1|)', b: '(2|)', c: '-(3|)' },
    subscriptions: { b: [] },
    expected:                '--(r|)',
    values: { r: [value(0, '1'), failure(1, new GuardRefusedError('settleAll', 1, 'not b'), 0), value(2, '3')] },
    build: settled({ guard: (call) => (call === 'b' ? 'not b' : true) }),
  }),
  spec({
    title: 'rejects the call whose project throws',
    shows: 'throwing callback',
    label: 'settleAll([a, b], throwsAtA)',
    inners: { b:             '-(2|)' },
    expected:                '-(r|)',
    values: { r: [failure(0, broken), value(1, '2')] },
    build: ({ inner }) => settleAll(['a', 'b'], (call) => { if (call === 'a') throw broken; return inner(call); }),
  }),
  spec({
    title: 'stops every call when the consumer leaves, and makes no further ones',
    shows: 'early leave',
    label: 'settleAll([a, b, c], call, { concurrency: 2 })',
    inners: { a:             '------(1|)', b: '------(2|)', c: '(3|)' },
    subscriptions: { a:      '^--!', b: '^--!', c: [] },
    expected:                '----',
    unsub:                   '^--!',
    build: settled({ concurrency: 2 }),
  }),
  spec({
    title: 'makes synchronous calls one after the other',
    shows: 'synchronous source',
    label: 'settleAll([a, b, c], call, { concurrency: 1 })',
    inners: { a:             '(1|)', b: '(2|)', c: '(3|)' },
    expected:                '(r|)',
    values: { r: [value(0, '1'), value(1, '2'), value(2, '3')] },
    synchronous: ['a', 'b', 'c'],
    build: settled({ concurrency: 1 }),
  }),
  spec({
    title: 'clears its timer when the consumer leaves',
    label: 'settleAll([a], call, { deadlineMs: 50 })',
    expected:                '---',
    unsub:                   '^--!',
    build: () => settleAll(['a'], () => NEVER, { deadlineMs: 50 }),
  }),
  spec({
    title: 'is subscribed to once more from inside its own results, and makes all calls again',
    shows: 're-entrant source',
    label: 'settleAll([a, b], call, { concurrency: 1 }), the consumer answers the results by subscribing again, once',
    inners: { a:             '--(1|)', b: '-(2|)' },
    subscriptions: { a:      ['^-!', '---^-!'], b: ['--^!', '-----^!'] },
    expected:                '---r--(r|)',
    values: { r: [value(0, '1'), value(1, '2')] },
    build: (kit) => {
      const calls = settled({ concurrency: 1 }, ['a', 'b'])(kit);
      return calls.pipe(expand((_results, index) => (index === 0 ? calls : EMPTY)));
    },
  }),
];
