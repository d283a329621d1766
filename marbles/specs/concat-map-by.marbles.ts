import { map, merge, Subject, take, tap } from 'rxjs';
import type { ConcatMapByOptions, Settled } from '../../operators/index.js';
import { CallbackError, concatMapBy, inputOrder, OverflowError } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const fault = new Error('the source broke');

/** A result is drawn as its value, a rejection as the item and the name of its error. */
const shown = (settled: Settled<string, string>): string => {
  if (settled.status === 'fulfilled') return settled.value;
  const { name, message } = settled.reason as Error;
  return `${settled.input}: ${name === 'Error' ? message : name}`;
};

/** Letters of one alphabet are one conversation: a, b, c … and A, B, C … */
const key = (letter: string): string => (letter === letter.toLowerCase() ? 'small' : 'capital');

/** The row of an inner stream is named after its item. */
const mapped =
  (options?: ConcatMapByOptions<string> & { readonly errors?: 'settle' }, keyOf: (letter: string) => unknown = key): MarbleSpec['build'] =>
  ({ input, inner }) =>
    input('source').pipe(
      concatMapBy(keyOf, (item: string) => inner(item), options),
      map(shown),
    );

const throwsAtB = (letter: string): string => {
  if (letter === 'b') throw fault;
  return letter;
};

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'concatMapBy',
    title: 'runs one item of a key after the other, and keys beside each other',
    shows: 'many',
    label: 'concatMapBy(key, project): a and b share a key, C has its own',
    inputs: { source:        '-a-b-C----------|' },
    inners: { a:              '--------(x|)',
              b:                       '----(y|)',
              C:                  '--(z|)' },
    subscriptions: { source: '^---------------!', a: '-^-------!', b: '---------^---!', C: '-----^-!' },
    expected:                '-------z-x---y--|',
    cover: true,
    build: mapped(),
  },

  // What every operator must answer for.
  {
    operator: 'concatMapBy',
    title: 'waits for a source that never emits',
    shows: 'never',
    label: 'concatMapBy(key, project)',
    inputs: { source:        '-' },
    subscriptions: { source: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: mapped(),
  },
  {
    operator: 'concatMapBy',
    title: 'completes with an empty source',
    shows: 'empty',
    label: 'concatMapBy(key, project)',
    inputs: { source:        '---|' },
    subscriptions: { source: '^--!' },
    expected:                '---|',
    build: mapped(),
  },
  {
    operator: 'concatMapBy',
    title: 'completes after the result of a single item',
    shows: 'one',
    label: 'concatMapBy(key, project)',
    inputs: { source:        '-a-|' },
    inners: { a:              '-----(r|)' },
    expected:                '------(r|)',
    build: mapped(),
  },
  {
    operator: 'concatMapBy',
    title: 'keeps the order within each key of a synchronous burst',
    label: 'concatMapBy(key, project)',
    inputs: { source:        '(abAB|)' },
    inners: { a:             '---(w|)', b: '--(x|)', A: '-(y|)', B: '---(z|)' },
    subscriptions: { a:      '^--!', b: '---^-!', A: '^!', B: '-^--!' },
    expected:                '-y-wz(x|)',
    synchronous: ['source'],
    build: mapped(),
  },
  {
    operator: 'concatMapBy',
    title: 'aborts what is under way at the error of the source, which errors at once',
    shows: 'error',
    label: 'concatMapBy(key, project)',
    inputs: { source:        '-a-B-#' },
    inners: { a:              '---------(x|)', B: '---------(y|)' },
    subscriptions: { source: '^----!', a: '-^---!', B: '---^-!' },
    expected:                '-----#',
    error: fault,
    build: mapped(),
  },
  {
    operator: 'concatMapBy',
    title: "settles what was accepted before the error of the source with onSourceError 'drain'",
    label: "concatMapBy(key, project, { onSourceError: 'drain' })",
    inputs: { source:        '-a-b-#' },
    inners: { a:              '-----(x|)', b: '---(y|)' },
    expected:                '------x--(y#)',
    error: fault,
    build: mapped({ onSourceError: 'drain' }),
  },
  {
    operator: 'concatMapBy',
    title: 'leaves everything when the consumer leaves',
    shows: 'early leave',
    label: 'concatMapBy(key, project)',
    inputs: { source:        '-a-b----|' },
    inners: { a:              '---------(x|)', b: '-(y|)' },
    subscriptions: { source: '^----!', a: '-^---!', b: [] },
    expected:                '------',
    unsub:                   '^----!',
    build: mapped(),
  },
  {
    operator: 'concatMapBy',
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'concatMapBy(key, project), take(1)',
    inputs: { source:        '(abc|)' },
    inners: { a:             '(x|)', b: '(y|)', c: '(z|)' },
    subscriptions: { source: '(^!)', a: '(^!)', b: [], c: [] },
    expected:                '(x|)',
    synchronous: ['source', 'a', 'b', 'c'],
    build: ({ input, inner }) => input('source').pipe(concatMapBy(key, (item: string) => inner(item)), take(1), map(shown)),
  },
  {
    operator: 'concatMapBy',
    title: 'rejects the one item whose key throws',
    shows: 'throwing callback',
    label: 'concatMapBy(throwsAtB, project)',
    inputs: { source:        '-a-b-|' },
    inners: { a:              '-----(x|)' },
    expected:                '---e--(x|)',
    values: { e: 'b: CallbackError' },
    build: mapped({}, throwsAtB),
  },
  {
    operator: 'concatMapBy',
    title: "errors when key throws with errors 'propagate'",
    label: "concatMapBy(throwsAtB, project, { errors: 'propagate' })",
    inputs: { source:        '-a-b-|' },
    inners: { a:              '-----(x|)' },
    subscriptions: { source: '^--!', a: '-^-!' },
    expected:                '---#',
    error: new CallbackError('concatMapBy', 'key', 'threw', fault),
    build: ({ input, inner }) => input('source').pipe(concatMapBy(throwsAtB, (item: string) => inner(item), { errors: 'propagate' })),
  },
  {
    operator: 'concatMapBy',
    title: 'queues what the consumer sends back',
    shows: 're-entrant source',
    label: 'concatMapBy(key, project), the consumer answers x with b',
    inputs: { source:        '-a--' },
    inners: { a:              '--(x|)', b: '--(y|)' },
    subscriptions: { a:      '-^-!', b: '---^-!' },
    expected:                '---x-y',
    build: ({ input, inner }) => {
      const loop = new Subject<string>();
      return merge(input('source'), loop).pipe(
        concatMapBy(key, (item: string) => inner(item)),
        map(shown),
        tap((value) => { if (value === 'x') loop.next('b'); }),
      );
    },
  },

  // Failures.
  {
    operator: 'concatMapBy',
    title: 'goes on with the key of an item that failed',
    label: 'concatMapBy(key, project)',
    inputs: { source:        '-ab----|' },
    inners: { a:              '--#', b: '--(y|)' },
    subscriptions: { a:      '-^-!', b: '---^-!' },
    expected:                '---e-y-|',
    values: { e: 'a: the source broke' },
    error: fault,
    build: mapped(),
  },
  {
    operator: 'concatMapBy',
    title: "rejects the rest of a key with stopKey",
    label: "concatMapBy(key, project, { stopKey: true })",
    inputs: { source:        '-abA-----c-|' },
    inners: { a:              '--#', b: '--(y|)', A: '----(z|)', c: '-(y|)' },
    subscriptions: { a:      '-^-!', b: [], A: '---^---!', c: [] },
    expected:                '---(ef)z-g-|',
    values: { e: 'a: the source broke', f: 'b: ClosedError', g: 'c: ClosedError' },
    error: fault,
    build: mapped({ stopKey: true }),
  },
  {
    operator: 'concatMapBy',
    title: "hands on every value with errors 'propagate'",
    label: "concatMapBy(key, project, { errors: 'propagate' })",
    inputs: { source:        '-ab-C-|' },
    inners: { a:              '-u-v-|', b: '-w---x|', C: '---z-|' },
    expected:                '--u-v--(zw)x|',
    build: ({ input, inner }) => input('source').pipe(concatMapBy(key, (item: string) => inner(item), { errors: 'propagate' })),
  },

  // Bounds, order, time.
  {
    operator: 'concatMapBy',
    title: 'lets no more keys run than concurrency says, in turn',
    label: 'concatMapBy(key, project, { concurrency: 1 })',
    inputs: { source:        '(abA|)' },
    inners: { a:             '-(x|)', b: '-(y|)', A: '-(z|)' },
    expected:                '-xz(y|)',
    synchronous: ['source'],
    build: mapped({ concurrency: 1 }),
  },
  {
    operator: 'concatMapBy',
    title: "hands results out in the order of the items with inputOrder()",
    label: "concatMapBy(key, project, { order: inputOrder() })",
    inputs: { source:        '-aB-|' },
    inners: { a:              '-----(x|)', B: '-(y|)' },
    expected:                '------(xy|)',
    build: mapped({ order: inputOrder() }),
  },
  {
    operator: 'concatMapBy',
    title: 'errors at one item too many',
    label: 'concatMapBy(key, project, { maxQueued: 1 })',
    inputs: { source:        '-abc-|' },
    inners: { a:              '-----(x|)' },
    subscriptions: { source: '^--!', a: '-^-!' },
    expected:                '---(e#)',
    values: { e: 'c: OverflowError' },
    error: new OverflowError('concatMapBy', 1, 'error'),
    build: mapped({ maxQueued: 1 }),
  },
  {
    operator: 'concatMapBy',
    title: 'goes on with the key of an item that took too long',
    label: 'concatMapBy(key, project, { timeoutMs: 4 })',
    inputs: { source:        '-ab-|' },
    inners: { a:              '-', b: '--(y|)' },
    subscriptions: { a:      '-^---!', b: '-----^-!' },
    expected:                '-----e-(y|)',
    values: { e: 'a: AttemptTimeoutError' },
    build: mapped({ timeoutMs: 4 }),
  },
];
