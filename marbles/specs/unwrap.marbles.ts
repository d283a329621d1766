import { merge, Subject, take, tap } from 'rxjs';
import type { Settled } from '../../operators/index.js';
import { unwrap } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const fault = new Error('the source broke');
const badItem = new Error('the item is bad');

/** Capitals have failed, the others have themselves as their value; they were accepted in the order of the alphabet. */
const settled = (letter: string): Settled<string, string> => {
  const origin = { input: letter, index: letter.toLowerCase().charCodeAt(0) - 97, id: letter, attempts: 1 };
  return letter === letter.toLowerCase()
    ? { status: 'fulfilled', value: `${letter}!`, ...origin }
    : { status: 'rejected', reason: badItem, ...origin };
};

const inputs = Object.fromEntries(Array.from('abcABC', (letter) => [letter, settled(letter)]));
const values = { ...inputs, x: 'a!', y: 'b!', z: 'c!', l: ['a!', 'b!', 'c!'], e: [] };

const spec = (given: Omit<MarbleSpec, 'operator' | 'values'>): MarbleSpec => ({ operator: 'unwrap', values, ...given });
const valuesOf: MarbleSpec['build'] = ({ input }) => input<Settled<string, string>>('source').pipe(unwrap('values'));
const firstOf: MarbleSpec['build'] = ({ input }) => input<Settled<string, string>>('source').pipe(unwrap('first'));
const allOf: MarbleSpec['build'] = ({ input }) => input<Settled<string, string>>('source').pipe(unwrap('all'));

export const specs: readonly MarbleSpec[] = [
  spec({
    title: "leaves out failures with 'values'",
    shows: 'many',
    label: "unwrap('values')",
    inputs: { source:        '-a-B-c-|' },
    subscriptions: { source: '^------!' },
    expected:                '-x---z-|',
    cover: true,
    build: valuesOf,
  }),
  spec({
    title: "errors at the first failure with 'first'",
    label: "unwrap('first')",
    inputs: { source:        '-a-B-c-|' },
    subscriptions: { source: '^--!' },
    expected:                '-x-#',
    error: badItem,
    build: firstOf,
  }),
  spec({
    title: "emits all values in the order of their items with 'all'",
    label: "unwrap('all')",
    inputs: { source:        '-c-a--b-|' },
    expected:                '--------(l|)',
    build: allOf,
  }),
  spec({
    title: "has nothing but the error with 'all' when one has failed",
    label: "unwrap('all')",
    inputs: { source:        '-c-A--b-|' },
    subscriptions: { source: '^--!' },
    expected:                '---#',
    error: badItem,
    build: allOf,
  }),
  spec({
    title: "has an empty list of an empty source with 'all'",
    label: "unwrap('all')",
    inputs: { source:        '---|' },
    expected:                '---(e|)',
    build: allOf,
  }),
  spec({
    title: 'completes with an empty source',
    shows: 'empty',
    label: "unwrap('values')",
    inputs: { source:        '---|' },
    expected:                '---|',
    build: valuesOf,
  }),
  spec({
    title: 'emits a single value',
    shows: 'one',
    label: "unwrap('first')",
    inputs: { source:        '-a-|' },
    expected:                '-x-|',
    build: firstOf,
  }),
  spec({
    title: 'waits for a source that never emits',
    shows: 'never',
    label: "unwrap('all')",
    inputs: { source:        '-' },
    subscriptions: { source: '^ 99ms !' },
    expected:                '-',
    unsub:                   '^ 99ms !',
    build: allOf,
  }),
  spec({
    title: 'errors with the source',
    shows: 'error',
    label: "unwrap('all')",
    inputs: { source:        '-a-#' },
    expected:                '---#',
    error: fault,
    build: allOf,
  }),
  spec({
    title: 'drops what it holds when the consumer leaves',
    shows: 'early leave',
    label: "unwrap('all')",
    inputs: { source:        '-a-b-c|' },
    subscriptions: { source: '^---!' },
    expected:                '-----',
    unsub:                   '^---!',
    build: allOf,
  }),
  spec({
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: "unwrap('values'), take(1)",
    inputs: { source:        '(Aabc|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(x|)',
    synchronous: ['source'],
    build: (kit) => valuesOf(kit).pipe(take(1)),
  }),
  spec({
    title: 'emits items that the consumer sends back',
    shows: 're-entrant source',
    label: "unwrap('values'), the consumer answers a with b",
    inputs: { source:        '-a---' },
    expected:                '-(xy)',
    build: ({ input }) => {
      const loop = new Subject<Settled<string, string>>();
      return merge(input<Settled<string, string>>('source'), loop).pipe(
        unwrap('values'),
        tap((value) => { if (value === 'a!') loop.next(settled('b')); }),
      );
    },
  }),
  spec({
    title: 'continues when onEvent throws',
    shows: 'throwing callback',
    label: "unwrap('values', { onEvent: throws })",
    inputs: { source:        '-a-B-c-|' },
    expected:                '-x---z-|',
    build: ({ input }) => {
      const onEvent = (): void => { throw fault; };
      return input<Settled<string, string>>('source').pipe(unwrap('values', { onEvent }));
    },
  }),
];
