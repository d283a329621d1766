import { map, merge, Subject, take, tap } from 'rxjs';
import type { BulkheadMapOptions, Settled } from '../../operators/index.js';
import { bulkheadMap, CallbackError, createLimiter, inputOrder, OverflowError, orderPerKey } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const fault = new Error('the source broke');

/** A result is drawn as its value, a rejection as the item and the name of its error. */
const shown = (settled: Settled<string, string>): string => {
  if (settled.status === 'fulfilled') return settled.value;
  const { name, message } = settled.reason as Error;
  return `${settled.input}: ${name === 'Error' ? message : name}`;
};

/** The row of an inner stream is named after its item. */
const mapped =
  (options?: BulkheadMapOptions<string> & { readonly errors?: 'settle' }): MarbleSpec['build'] =>
  ({ input, inner }) =>
    input('source').pipe(
      bulkheadMap((item: string) => inner(item), options),
      map(shown),
    );

const passed =
  (options?: BulkheadMapOptions<string>): MarbleSpec['build'] =>
  ({ input, inner }) =>
    input('source').pipe(bulkheadMap((item: string) => inner(item), { ...options, errors: 'propagate' }));

/** Capitals are one key, the others another. */
const key = (letter: string): string => (letter === letter.toLowerCase() ? 'small' : 'capital');

/** Calls of three tools: i makes an image, w and x search the web, c runs code. */
const TOOLS: Readonly<Record<string, string>> = { i: 'ImageGen', j: 'ImageGen', c: 'CodeExec', d: 'CodeExec', e: 'CodeExec' };
const tool = (call: string): string => TOOLS[call] ?? 'WebSearch';


export const specs: readonly MarbleSpec[] = [
  {
    operator: 'bulkheadMap',
    title: 'never lets a key that is full block another',
    shows: 'many',
    label: "bulkheadMap(project, { key, perKey: 1 }): A and B share a key, c has its own",
    inputs: { source:        '-A-B-c-----------|' },
    inners: { A:              '---------(x|)',
              B:                        '----(y|)',
              c:                  '---(z|)' },
    subscriptions: { source: '^----------------!',
                     A:      '-^--------!',
                     B:      '----------^---!',
                     c:      '-----^--!' },
    expected:                '--------z-x---y--|',
    cover: true,
    options: { perKey: 1 },
    build: (kit) => mapped({ key, ...kit.options })(kit),
  },

  // What every operator must answer for.
  {
    operator: 'bulkheadMap',
    title: 'waits for a source that never emits',
    shows: 'never',
    label: 'bulkheadMap(project)',
    inputs: { source:        '-' },
    subscriptions: { source: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: mapped(),
  },
  {
    operator: 'bulkheadMap',
    title: 'completes with an empty source',
    shows: 'empty',
    label: 'bulkheadMap(project)',
    inputs: { source:        '---|' },
    subscriptions: { source: '^--!' },
    expected:                '---|',
    build: mapped(),
  },
  {
    operator: 'bulkheadMap',
    title: 'completes after the result of a single item',
    shows: 'one',
    label: 'bulkheadMap(project)',
    inputs: { source:        '-a-|' },
    inners: { a:              '-----(r|)' },
    subscriptions: { source: '^--!', a: '-^----!' },
    expected:                '------(r|)',
    build: mapped(),
  },
  {
    operator: 'bulkheadMap',
    title: 'runs as many of a synchronous burst as there are slots',
    label: 'bulkheadMap(project, { concurrency: 2 })',
    inputs: { source:        '(abc|)' },
    inners: { a:             '----(x|)',
              b:             '--(y|)',
              c:               '---(z|)' },
    subscriptions: { source: '(^!)', a: '^---!', b: '^-!', c: '--^--!' },
    expected:                '--y-x(z|)',
    synchronous: ['source'],
    build: mapped({ concurrency: 2 }),
  },
  {
    operator: 'bulkheadMap',
    title: 'aborts running calls at the error of the source, which errors at once',
    shows: 'error',
    label: 'bulkheadMap(project)',
    inputs: { source:        '-a-b-#' },
    inners: { a:              '---------(x|)',
              b:                '---------(y|)' },
    subscriptions: { source: '^----!', a: '-^---!', b: '---^-!' },
    expected:                '-----#',
    error: fault,
    build: mapped(),
  },
  {
    operator: 'bulkheadMap',
    title: "settles what was accepted before the error of the source with onSourceError 'drain'",
    label: "bulkheadMap(project, { concurrency: 1, onSourceError: 'drain' })",
    inputs: { source:        '-a-b-#' },
    inners: { a:              '-----(x|)',
              b:                   '---(y|)' },
    subscriptions: { source: '^----!', a: '-^----!', b: '------^--!' },
    expected:                '------x--(y#)',
    error: fault,
    build: mapped({ concurrency: 1, onSourceError: 'drain' }),
  },
  {
    operator: 'bulkheadMap',
    title: 'leaves everything when the consumer leaves',
    shows: 'early leave',
    label: 'bulkheadMap(project, { concurrency: 1 })',
    inputs: { source:        '-a-b----|' },
    inners: { a:              '---------(x|)', b: '-(y|)' },
    subscriptions: { source: '^----!', a: '-^---!', b: [] },
    expected:                '------',
    unsub:                   '^----!',
    build: mapped({ concurrency: 1 }),
  },
  {
    operator: 'bulkheadMap',
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'bulkheadMap(project), take(1)',
    inputs: { source:        '(abc|)' },
    inners: { a:             '(x|)', b: '(y|)', c: '(z|)' },
    subscriptions: { source: '(^!)', a: '(^!)', b: [], c: [] },
    expected:                '(x|)',
    synchronous: ['source', 'a', 'b', 'c'],
    build: ({ input, inner }) => input('source').pipe(bulkheadMap((item: string) => inner(item)), take(1), map(shown)),
  },
  {
    operator: 'bulkheadMap',
    title: 'rejects the one item whose key throws',
    shows: 'throwing callback',
    label: 'bulkheadMap(project, { key: throwsAtB })',
    inputs: { source:        '-a-b-|' },
    inners: { a:              '-----(x|)', b: '(y|)' },
    subscriptions: { source: '^----!', a: '-^----!', b: [] },
    expected:                '---e--(x|)',
    values: { e: 'b: CallbackError' },
    build: mapped({ key: (item) => { if (item === 'b') throw fault; return item; } }),
  },
  {
    operator: 'bulkheadMap',
    title: "errors when key throws with errors 'propagate'",
    label: "bulkheadMap(project, { key: throwsAtB, errors: 'propagate' })",
    inputs: { source:        '-a-b-|' },
    inners: { a:              '-----(x|)' },
    subscriptions: { source: '^--!', a: '-^-!' },
    expected:                '---#',
    error: new CallbackError('bulkheadMap', 'key', 'threw', fault),
    build: passed({ key: (item) => { if (item === 'b') throw fault; return item; } }),
  },
  {
    operator: 'bulkheadMap',
    title: 'queues what the consumer sends back',
    shows: 're-entrant source',
    label: 'bulkheadMap(project, { concurrency: 1 }), the consumer answers x with b',
    inputs: { source:        '-a--' },
    inners: { a:              '--(x|)', b: '--(y|)' },
    subscriptions: { a:      '-^-!', b: '---^-!' },
    expected:                '---x-y',
    build: ({ input, inner }) => {
      const loop = new Subject<string>();
      return merge(input('source'), loop).pipe(
        bulkheadMap((item: string) => inner(item), { concurrency: 1 }),
        map(shown),
        tap((value) => { if (value === 'x') loop.next('b'); }),
      );
    },
  },

  // What inner streams say.
  {
    operator: 'bulkheadMap',
    title: 'keeps the last value of an inner stream',
    label: 'bulkheadMap(project)',
    inputs: { source:        '-a-|' },
    inners: { a:              '-x-y-|' },
    expected:                '------(y|)',
    build: mapped(),
  },
  {
    operator: 'bulkheadMap',
    title: 'fulfils an inner stream without a value with undefined',
    label: 'bulkheadMap(project)',
    inputs: { source:        '-a-|' },
    inners: { a:              '---|' },
    expected:                '----(x|)',
    values: { x: { status: 'fulfilled', value: undefined, input: 'a', index: 0, id: '0', attempts: 1 } },
    build: ({ input, inner }) => input('source').pipe(bulkheadMap((item: string) => inner(item))),
  },
  {
    operator: 'bulkheadMap',
    title: 'rejects one item and continues with the others',
    label: 'bulkheadMap(project, { concurrency: 1 })',
    inputs: { source:        '-a-b---|' },
    inners: { a:              '---#', b: '---(y|)' },
    subscriptions: { a:      '-^--!', b: '----^--!' },
    expected:                '----e--(y|)',
    values: { e: 'a: the source broke' },
    error: fault,
    build: mapped({ concurrency: 1 }),
  },
  {
    operator: 'bulkheadMap',
    title: "emits every value with errors 'propagate'",
    label: "bulkheadMap(project, { errors: 'propagate' })",
    inputs: { source:        '-a-b-|' },
    inners: { a:              '-x-y-|', b: '-z---z|' },
    expected:                '--x-(yz)z|',
    build: passed(),
  },
  {
    operator: 'bulkheadMap',
    title: "errors with the first inner stream that does with errors 'propagate'",
    label: "bulkheadMap(project, { errors: 'propagate' })",
    inputs: { source:        '-a-b----|' },
    inners: { a:              '------(x|)', b: '-y-#' },
    subscriptions: { source: '^-----!', a: '-^----!', b: '---^--!' },
    expected:                '----y-#',
    error: fault,
    build: passed(),
  },

  // Tools with a limit each.
  {
    operator: 'bulkheadMap',
    title: 'tools: one image, five searches and two programs at a time',
    label: "bulkheadMap(run, { key: tool, perKey: { ImageGen: 1, WebSearch: 5, CodeExec: 2 } })",
    lanes: { input: 'source', names: ['ImageGen', 'WebSearch', 'CodeExec'], of: tool },
    inputs: { source:        '(ijuvwxyzcde|)' },
    inners: { i:             '-----------(I|)',
              j:                        '-----(J|)',
              u:             '--(U|)',
              v:             '---(V|)',
              w:             '---(W|)',
              x:             '---(X|)',
              y:             '---(Y|)',
              z:               '-------(Z|)',
              c:             '----------(C|)',
              d:             '------------(D|)',
              e:                       '---(E|)' },
    subscriptions: { i:      '^----------!',
                     j:      '-----------^----!',
                     u:      '^-!',
                     y:      '^--!',
                     z:      '--^------!',
                     c:      '^---------!',
                     d:      '^-----------!',
                     e:      '----------^--!' },
    expected:                '--U(VWXY)ZCIDE--(J|)',
    synchronous: ['source'],
    build: mapped({ key: tool, perKey: { ImageGen: 1, WebSearch: 5, CodeExec: 2 } }),
  },
  {
    operator: 'bulkheadMap',
    title: 'gives each key the limit that perKey answers',
    label: "bulkheadMap(project, { key, perKey: (key) => key === 'capital' ? 1 : 2 })",
    inputs: { source:        '(abcAB|)' },
    inners: { a:             '---(v|)', b: '---(w|)', c: '-----(x|)', A: '--(y|)', B: '-(z|)' },
    subscriptions: { a: '^--!', b: '^--!', c: '---^----!', A: '^-!', B: '--^!' },
    expected:                '--y(vwz)(x|)',
    synchronous: ['source'],
    build: mapped({ key, perKey: (name) => (name === 'capital' ? 1 : 2) }),
  },

  // Whose turn it is.
  {
    operator: 'bulkheadMap',
    title: 'gives slots to keys in turn',
    label: 'bulkheadMap(project, { concurrency: 1, key })',
    inputs: { source:        '(abcA|)' },
    inners: { a:             '-(w|)', b: '-(x|)', c: '-(y|)', A: '-(z|)' },
    expected:                '-wxz(y|)',
    synchronous: ['source'],
    build: mapped({ concurrency: 1, key }),
  },

  // In which order.
  {
    operator: 'bulkheadMap',
    title: "holds results back for those before them with inputOrder()",
    label: "bulkheadMap(project, { order: inputOrder() })",
    inputs: { source:        '-ab-|' },
    inners: { a:              '-----(x|)', b: '-(y|)' },
    expected:                '------(xy|)',
    build: mapped({ order: inputOrder() }),
  },
  {
    operator: 'bulkheadMap',
    title: "emits the values of the first in line at once with inputOrder() and errors 'propagate'",
    label: "bulkheadMap(project, { order: inputOrder(), errors: 'propagate' })",
    inputs: { source:        '-ab-|' },
    inners: { a:              '-u-v-|', b: '-x--y----z|' },
    expected:                '--u-v-(xy)-z|',
    build: passed({ order: inputOrder() }),
  },
  {
    operator: 'bulkheadMap',
    title: "keeps the order within a key only with orderPerKey()",
    label: "bulkheadMap(project, { order: orderPerKey(key) })",
    inputs: { source:        '-abA|' },
    inners: { a:              '------(x|)', b: '-(y|)', A: '-(z|)' },
    expected:                '----z--(xy|)',
    build: mapped({ order: orderPerKey(key) }),
  },

  // Bounds.
  {
    operator: 'bulkheadMap',
    title: 'errors at one item too many',
    label: 'bulkheadMap(project, { concurrency: 1, maxQueued: 1 })',
    inputs: { source:        '-abc-|' },
    inners: { a:              '-----(x|)', b: '(y|)', c: '(z|)' },
    subscriptions: { source: '^--!', a: '-^-!' },
    expected:                '---(e#)',
    values: { e: 'c: OverflowError' },
    error: new OverflowError('bulkheadMap', 1, 'error'),
    build: mapped({ concurrency: 1, maxQueued: 1 }),
  },
  {
    operator: 'bulkheadMap',
    title: "rejects the item that waited longest with overflow 'dropOldest'",
    label: "bulkheadMap(project, { concurrency: 1, maxQueued: 1, overflow: 'dropOldest' })",
    inputs: { source:        '-abc-|' },
    inners: { a:              '-----(x|)', b: '-(y|)', c: '-(z|)' },
    expected:                '---e--x(z|)',
    values: { e: 'b: OverflowError' },
    build: mapped({ concurrency: 1, maxQueued: 1, overflow: 'dropOldest' }),
  },
  {
    operator: 'bulkheadMap',
    title: "rejects the newcomer with overflow 'dropNewest', in its place with inputOrder()",
    label: "bulkheadMap(project, { concurrency: 1, maxQueued: 1, overflow: 'dropNewest', order: inputOrder() })",
    inputs: { source:        '-abc-|' },
    inners: { a:              '-----(x|)', b: '-(y|)', c: '-(z|)' },
    expected:                '------x(ye|)',
    values: { e: 'c: OverflowError' },
    build: mapped({ concurrency: 1, maxQueued: 1, overflow: 'dropNewest', order: inputOrder() }),
  },
  {
    operator: 'bulkheadMap',
    title: "leaves only the newest waiting with overflow 'latest'",
    label: "bulkheadMap(project, { concurrency: 1, maxQueued: 2, overflow: 'latest' })",
    inputs: { source:        '-abcd-|' },
    inners: { a:              '-------(x|)', b: '-(y|)', c: '-(y|)', d: '-(z|)' },
    expected:                '----(ef)x(z|)',
    values: { e: 'b: OverflowError', f: 'c: OverflowError' },
    build: mapped({ concurrency: 1, maxQueued: 2, overflow: 'latest' }),
  },
  {
    operator: 'bulkheadMap',
    title: 'accepts an item whose key has a free slot although the queue is full',
    label: 'bulkheadMap(project, { key, perKey: 1, maxQueued: 1 })',
    inputs: { source:        '-abC-|' },
    inners: { a:              '-----(x|)', b: '-(y|)', C: '-(z|)' },
    expected:                '----z-x(y|)',
    build: mapped({ key, perKey: 1, maxQueued: 1 }),
  },
  {
    operator: 'bulkheadMap',
    title: 'rejects the first item of one key too many',
    label: "bulkheadMap(project, { key, maxKeys: 1, overflow: 'dropNewest' })",
    inputs: { source:        '-aB--C-|' },
    inners: { a:              '--(x|)', C: '-(z|)' },
    expected:                '--ex--z|',
    values: { e: 'B: OverflowError' },
    build: mapped({ key, maxKeys: 1, overflow: 'dropNewest' }),
  },

  // Time and permits.
  {
    operator: 'bulkheadMap',
    title: 'stops an inner stream that takes too long, and frees its slot',
    label: 'bulkheadMap(project, { concurrency: 1, timeoutMs: 4 })',
    inputs: { source:        '-ab-|' },
    inners: { a:              '-', b: '--(y|)' },
    subscriptions: { a:      '-^---!', b: '-----^-!' },
    expected:                '-----e-(y|)',
    values: { e: 'a: AttemptTimeoutError' },
    build: mapped({ concurrency: 1, timeoutMs: 4 }),
  },
  {
    operator: 'bulkheadMap',
    title: 'gives every inner stream its own time, from its start',
    label: 'bulkheadMap(project, { concurrency: 2, timeoutMs: 5 })',
    inputs: { source:        '-a-bc-|' },
    inners: { a:              '-', b: '-', c: '-' },
    subscriptions: { a:      '-^----!', b: '---^----!', c: '------^----!' },
    expected:                '------x-y--(z|)',
    values: { x: 'a: AttemptTimeoutError', y: 'b: AttemptTimeoutError', z: 'c: AttemptTimeoutError' },
    build: mapped({ concurrency: 2, timeoutMs: 5 }),
  },
  {
    operator: 'bulkheadMap',
    title: 'follows a changing concurrency',
    label: 'bulkheadMap(project, { concurrency })',
    inputs: { source:        '(abc|)',
              concurrency:   '1-2-----' },
    inners: { a:             '-----(x|)', b: '-----(y|)', c: '--(z|)' },
    subscriptions: { a: '^----!', b: '--^----!', c: '-----^-!' },
    expected:                '-----x-(yz|)',
    synchronous: ['source', 'concurrency'],
    build: ({ input, inner }) =>
      input('source').pipe(
        bulkheadMap((item: string) => inner(item), { concurrency: input('concurrency').pipe(map((digit) => Number(digit))) }),
        map(shown),
      ),
  },
  {
    operator: 'bulkheadMap',
    title: 'shares a limiter',
    label: 'two bulkheadMap(project, { limiter }) with a limiter of 1 slot',
    inputs: { one:           '-a|',
              two:           '-b|' },
    inners: { a:              '---(x|)', b: '---(y|)' },
    subscriptions: { a:      '-^--!', b: '----^--!' },
    expected:                '----x--(y|)',
    build: ({ input, inner }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const branch = (name: string) => input(name).pipe(bulkheadMap((item: string) => inner(item), { limiter }));
      return merge(branch('one'), branch('two')).pipe(map(shown));
    },
  },

  // One after the other, for each key.
  {
    operator: 'bulkheadMap',
    title: 'runs one item of a key after the other with perKey 1',
    label: 'bulkheadMap(project, { key, perKey: 1 })',
    inputs: { source:        '(abAB|)' },
    inners: { a:             '---(w|)', b: '--(x|)', A: '-(y|)', B: '---(z|)' },
    subscriptions: { a:      '^--!', b: '---^-!', A: '^!', B: '-^--!' },
    expected:                '-y-wz(x|)',
    synchronous: ['source'],
    build: mapped({ key, perKey: 1 }),
  },
  {
    operator: 'bulkheadMap',
    title: 'continues with the key of an item that failed',
    label: 'bulkheadMap(project, { key, perKey: 1 })',
    inputs: { source:        '-ab----|' },
    inners: { a:              '--#', b: '--(y|)' },
    subscriptions: { a:      '-^-!', b: '---^-!' },
    expected:                '---e-y-|',
    values: { e: 'a: the source broke' },
    error: fault,
    build: mapped({ key, perKey: 1 }),
  },
  {
    operator: 'bulkheadMap',
    title: "rejects the rest of a key with stopKey",
    label: "bulkheadMap(project, { key, perKey: 1, stopKey: true })",
    inputs: { source:        '-abA-----c-|' },
    inners: { a:              '--#', b: '--(y|)', A: '----(z|)', c: '-(y|)' },
    subscriptions: { a:      '-^-!', b: [], A: '---^---!', c: [] },
    expected:                '---(ef)z-g-|',
    values: { e: 'a: the source broke', f: 'b: ClosedError', g: 'c: ClosedError' },
    error: fault,
    build: mapped({ key, perKey: 1, stopKey: true }),
  },
  {
    operator: 'bulkheadMap',
    title: 'continues with the key of an item that took too long',
    label: 'bulkheadMap(project, { key, perKey: 1, timeoutMs: 4 })',
    inputs: { source:        '-ab-|' },
    inners: { a:              '-', b: '--(y|)' },
    subscriptions: { a:      '-^---!', b: '-----^-!' },
    expected:                '-----e-(y|)',
    values: { e: 'a: AttemptTimeoutError' },
    build: mapped({ key, perKey: 1, timeoutMs: 4 }),
  },
];
