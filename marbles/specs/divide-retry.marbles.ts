import { map, merge, mergeMap, of, Subject, tap } from 'rxjs';
import type { BatchWork, DivideRetryOptions, Settled } from '../../operators/index.js';
import { classifyError, divideAndConquer, divideRetry, retryFailed, sequentialSearch } from '../../operators/index.js';
import type { MarbleSpec, SpecKit } from '../spec.js';

const badRequest = Object.assign(new Error('forbidden words'), { status: 400 });
const unauthorized = Object.assign(new Error('no such key'), { status: 401 });
const overloaded = Object.assign(new Error('overloaded'), { status: 503 });
const named = Object.assign(new Error('input[2] has forbidden words'), { status: 400 });
const broken = new Error('weigh broke');

/** The row of a call is named after its items. The answer is the items in capitals. */
const work = ({ inner }: SpecKit): BatchWork<string, string> => {
  const attempts = new Map<string, number>();
  return (items) => {
    const name = items.join('');
    const attempt = (attempts.get(name) ?? 0) + 1;
    attempts.set(name, attempt);
    return inner(attempt === 1 ? name : `${name} ${String(attempt)}`).pipe(map(() => items.map((item) => item.toUpperCase())));
  };
};

/** A list of results as one text: a capital for a result, the item itself for a rejection. */
const shown = (settled: readonly Settled<string, string>[]): string =>
  settled.map((one) => (one.status === 'fulfilled' ? one.value : one.input)).join('');

const divided =
  (items: string, options?: DivideRetryOptions<string>): MarbleSpec['build'] =>
  (kit) =>
    divideRetry(work(kit), options)(Array.from(items)).pipe(map(shown));

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'divideRetry',
    title: 'cuts a list that fails into four parts, and the part that fails again, until the bad item stands alone',
    shows: 'many',
    label: "divideRetry(work)([...'abcdefgh'])",
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
    cover: true,
    build: divided('abcdefgh'),
  },
  {
    operator: 'divideRetry',
    title: 'sends one half at a time, what it has put aside in one piece, and never what must fail',
    label: "divideRetry(work, { repair: divideAndConquer({ strategy: sequentialSearch({ confirm: true }) }) })([...'abcdefgh'])",
    inputs: {},
    inners: { abcdefgh: '--#',
              abcd:       '--#',
              ab:           '--(r|)',
              c:              '--#',
              defgh:            '--(r|)' },
    expected:           '----------(R|)',
    values: { R: 'ABcDEFGH' },
    error: badRequest,
    build: divided('abcdefgh', { repair: divideAndConquer({ strategy: sequentialSearch({ confirm: true }) }) }),
  },
  {
    operator: 'divideRetry',
    title: 'rejects what the error names and sends the rest in one piece',
    label: "divideRetry(work, { classify: classifyError })([...'abcdefgh'])",
    inputs: {},
    inners: { abcdefgh: '--#',
              abdefgh:    '--(r|)' },
    expected:           '----(R|)',
    values: { R: 'ABcDEFGH' },
    error: named,
    build: divided('abcdefgh', { classify: classifyError }),
  },
  {
    operator: 'divideRetry',
    title: 'repeats a call as it was when the other side is overloaded',
    label: "divideRetry(work, { repair: retryFailed({ initialMs: 3, jitter: 'none' }) })([...'ab'])",
    inputs: {},
    inners: { ab:    '--#',
              'ab 2':     '--(r|)' },
    expected:        '-------(R|)',
    values: { R: 'AB' },
    error: overloaded,
    build: divided('ab', { repair: retryFailed({ initialMs: 3, jitter: 'none' }) }),
  },
  {
    operator: 'divideRetry',
    title: 'does not cut up what is refused for another reason than its items',
    label: "divideRetry(work)([...'abcd'])",
    inputs: {},
    inners: { abcd: '--#' },
    expected:       '--(R|)',
    values: { R: 'abcd' },
    error: unauthorized,
    build: divided('abcd'),
  },
  {
    operator: 'divideRetry',
    title: 'takes no more slots than it has',
    label: "divideRetry(work, { concurrency: 1, repair: divideAndConquer({ factor: 2 }) })([...'ab'])",
    inputs: {},
    inners: { ab: '-#',
              a:   '--(r|)',
              b:     '-#' },
    expected:     '----(R|)',
    values: { R: 'Ab' },
    error: badRequest,
    build: divided('ab', { concurrency: 1, repair: divideAndConquer({ factor: 2 }) }),
  },
  {
    operator: 'divideRetry',
    title: 'answers for no items at once, without a call',
    shows: 'empty',
    label: 'divideRetry(work)([])',
    inputs: {},
    expected: '(R|)',
    values: { R: '' },
    build: divided(''),
  },
  {
    operator: 'divideRetry',
    title: 'sends a single item as it is',
    shows: 'one',
    label: "divideRetry(work)(['a'])",
    inputs: {},
    inners: { a: '--(r|)' },
    expected:    '--(R|)',
    values: { R: 'A' },
    build: divided('a'),
  },
  {
    operator: 'divideRetry',
    title: 'answers at once when the work does',
    shows: 'synchronous source',
    label: "divideRetry(work)([...'ab'])",
    inputs: {},
    expected: '(R|)',
    values: { R: 'AB' },
    build: () => divideRetry((items: readonly string[]) => of(items.map((item) => item.toUpperCase())))(['a', 'b']).pipe(map(shown)),
  },
  {
    operator: 'divideRetry',
    title: 'waits for work that never ends for as long as the attempt may take',
    label: "divideRetry(work, { timeoutMs: 3 })([...'ab'])",
    inputs: {},
    inners: { ab: '-' },
    subscriptions: { ab: '^--!' },
    expected:     '---(R|)',
    values: { R: 'ab' },
    build: divided('ab', { timeoutMs: 3 }),
  },
  {
    operator: 'divideRetry',
    title: 'never answers when the work never does and nothing bounds it',
    shows: 'never',
    label: "divideRetry(work, { timeoutMs: Infinity })([...'ab'])",
    inputs: {},
    inners: { ab: '-' },
    expected:     '-',
    build: divided('ab', { timeoutMs: Infinity }),
  },
  {
    operator: 'divideRetry',
    title: 'stops every call when it is left',
    shows: 'early leave',
    label: "divideRetry(work)([...'abc'])",
    inputs: {},
    inners: { abc: '-#',
              a:    '----(r|)',
              b:    '-(r|)',
              c:    '----(r|)' },
    subscriptions: { a: '-^--!', c: '-^--!' },
    unsub:          '^---!',
    expected:       '-----',
    error: badRequest,
    build: divided('abc'),
  },
  {
    operator: 'divideRetry',
    title: 'rejects the item a callback throws at, and sends the others',
    shows: 'throwing callback',
    label: "divideRetry(work, { weigh: (item) => { if (item === 'b') throw broken; return 1; } })([...'abc'])",
    inputs: {},
    inners: { ac: '--(r|)' },
    expected:     '--(R|)',
    values: { R: 'AbC' },
    build: divided('abc', {
      weigh: (item) => {
        if (item === 'b') throw broken;
        return 1;
      },
    }),
  },
  {
    operator: 'divideRetry',
    title: 'runs for each list of a source',
    label: 'mergeMap(divideRetry(work))',
    inputs: { source: '-x-y---|' },
    inners: { ab:      '-#',
              a:        '-(r|)',
              b:        '-(r|)',
              c:         '--(r|)' },
    expected:         '---R-S-|',
    values: { x: ['a', 'b'], y: ['c'], R: 'AB', S: 'C' },
    error: badRequest,
    build: (kit) => kit.input<string[]>('source').pipe(mergeMap(divideRetry(work(kit))), map(shown)),
  },
  {
    operator: 'divideRetry',
    title: 'is left with the source that fails',
    shows: 'error',
    label: 'mergeMap(divideRetry(work))',
    inputs: { source: '-x-#' },
    inners: { ab:      '----(r|)' },
    subscriptions: { ab: '-^-!' },
    expected:         '---#',
    values: { x: ['a', 'b'] },
    build: (kit) => kit.input<string[]>('source').pipe(mergeMap(divideRetry(work(kit))), map(shown)),
  },
  {
    operator: 'divideRetry',
    title: 'runs for a list that the consumer sends back at the results of another',
    shows: 're-entrant source',
    label: "mergeMap(divideRetry(work)), the consumer answers AB with ['c']",
    inputs: { source: '-x------' },
    inners: { ab:      '--(r|)',
              c:         '---(r|)' },
    subscriptions: { ab: '-^-!', c: '---^--!' },
    expected:         '---R--S-',
    values: { x: ['a', 'b'], R: 'AB', S: 'C' },
    build: (kit) => {
      const loop = new Subject<string[]>();
      const answer = (results: string): void => { if (results === 'AB') loop.next(['c']); };
      return merge(kit.input<string[]>('source'), loop).pipe(mergeMap(divideRetry(work(kit))), map(shown), tap(answer));
    },
  },
];
