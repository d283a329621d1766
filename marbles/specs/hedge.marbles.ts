import { EMPTY, expand, take } from 'rxjs';
import type { HedgeOptions } from '../../operators/index.js';
import { CallbackError, createLimiter, hedge } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const broken = new Error('the backend broke');
const failing = (status: number): Error => Object.assign(new Error(`status ${String(status)}`), { status });

/** Attempt 0 is the inner stream `first`, then `second` and `third`. */
const NAMES = ['first', 'second', 'third'];
const hedged = (options?: HedgeOptions): MarbleSpec['build'] => ({ inner }) =>
  hedge((attempt) => inner(NAMES[attempt] ?? ''), options);

const spec = (given: Omit<MarbleSpec, 'operator' | 'inputs'>): MarbleSpec => ({ operator: 'hedge', inputs: {}, ...given });

export const specs: readonly MarbleSpec[] = [
  spec({
    title: 'asks again when the first attempt is slow, and takes the first answer',
    label: 'hedge(call, { delayMs: 4 })',
    inners: { first:         '----------(a|)',
              second:            '---(b|)' },
    subscriptions: { first:  '^------!',
                     second: '----^--!' },
    expected:                '-------(b|)',
    cover: true,
    options: { delayMs: 4 },
    build: (kit) => hedged(kit.options)(kit),
  }),
  spec({
    title: 'makes one attempt when it answers in time',
    shows: 'one',
    label: 'hedge(call, { delayMs: 4 })',
    inners: { first:         '---(a|)', second: '|' },
    subscriptions: { first:  '^--!', second: [] },
    expected:                '---(a|)',
    build: hedged({ delayMs: 4 }),
  }),
  spec({
    title: 'waits for attempts that never answer',
    shows: 'never',
    label: 'hedge(call, { delayMs: 4 })',
    inners: { first:         '-', second: '-' },
    subscriptions: { first:  '^ 99ms !', second: '----^ 95ms !' },
    expected:                '-',
    unsub:                   '^ 99ms !',
    build: hedged({ delayMs: 4 }),
  }),
  spec({
    title: 'completes with an attempt that has nothing to say',
    shows: 'empty',
    label: 'hedge(call, { delayMs: 4 })',
    inners: { first:         '--|' },
    expected:                '--|',
    build: hedged({ delayMs: 4 }),
  }),
  spec({
    title: 'emits every value of the attempt that emitted first',
    shows: 'many',
    label: 'hedge(call, { delayMs: 2 })',
    inners: { first:         '---a--b--c|',
              second:          '-----d|' },
    subscriptions: { first:  '^---------!',
                     second: '--^!' },
    expected:                '---a--b--c|',
    build: hedged({ delayMs: 2 }),
  }),
  spec({
    title: 'errors with the winner once it has won',
    shows: 'error',
    label: 'hedge(call, { delayMs: 2 })',
    inners: { first:         '---a--#',
              second:          '---d|' },
    subscriptions: { second: '--^!' },
    expected:                '---a--#',
    error: broken,
    build: hedged({ delayMs: 2 }),
  }),
  spec({
    title: 'starts every attempt after the silence of the one before',
    label: 'hedge(call, { delayMs: 3, maxAttempts: 3 })',
    inners: { first:         '-', second: '-',
              third:               '--(c|)' },
    subscriptions: { first:  '^-------!',
                     second: '---^----!',
                     third:  '------^-!' },
    expected:                '--------(c|)',
    build: hedged({ delayMs: 3, maxAttempts: 3 }),
  }),
  spec({
    title: 'starts all attempts at once with delayMs 0',
    label: 'hedge(call, { delayMs: 0, maxAttempts: 3 })',
    inners: { first:         '-----(a|)', second: '---(b|)', third: '----(c|)' },
    subscriptions: { first:  '^--!', second: '^--!', third: '^--!' },
    expected:                '---(b|)',
    build: hedged({ delayMs: 0, maxAttempts: 3 }),
  }),
  spec({
    title: 'asks again at once when the first attempt fails',
    label: 'hedge(call, { delayMs: 9 })',
    inners: { first:         '--#', second: '---(b|)' },
    subscriptions: { first:  '^-!', second: '--^--!' },
    expected:                '-----(b|)',
    error: broken,
    build: hedged({ delayMs: 9 }),
  }),
  spec({
    title: 'asks again only after a failure with delayMs Infinity',
    label: 'hedge(call, { delayMs: Infinity })',
    inners: { first:         '--------#', second: '-(b|)' },
    subscriptions: { first:  '^-------!', second: '--------^!' },
    expected:                '---------(b|)',
    error: broken,
    build: hedged({ delayMs: Infinity }),
  }),
  spec({
    title: 'errors when all attempts have failed',
    label: 'hedge(call, { delayMs: 2 })',
    inners: { first:         '------#', second: '-#' },
    subscriptions: { first:  '^-----!', second: '--^!' },
    expected:                '------#',
    error: broken,
    build: hedged({ delayMs: 2 }),
  }),
  spec({
    title: 'ends everything at a fatal error',
    label: 'hedge(call, { delayMs: 2 })',
    inners: { first:         '------(a|)', second: '-#' },
    subscriptions: { first:  '^--!', second: '--^!' },
    expected:                '---#',
    error: failing(401),
    build: hedged({ delayMs: 2 }),
  }),
  spec({
    title: 'stops hedging when it is throttled, and lets running attempts continue',
    label: 'hedge(call, { delayMs: 2, maxAttempts: 3 })',
    inners: { first:         '------(a|)', second: '-#', third: '(c|)' },
    subscriptions: { first:  '^-----!', second: '--^!', third: [] },
    expected:                '------(a|)',
    error: failing(429),
    build: hedged({ delayMs: 2, maxAttempts: 3 }),
  }),
  spec({
    title: 'waits 50 ms while it knows nothing better',
    label: 'hedge(call)',
    inners: { first:         '-', second: '(b|)' },
    subscriptions: { second: '50ms (^!)' },
    expected:                '50ms (b|)',
    build: hedged(),
  }),
  spec({
    title: 'counts the silence from when the first attempt got its permit',
    label: 'hedge(call, { delayMs: 2, limiter }), the only slot is taken for 5 ms',
    inners: { busy:          '-----|', first: '--(a|)', second: '-' },
    subscriptions: { busy:   '^----!', first: '-----^-!', second: [] },
    expected:                '-------(a|)',
    build: (kit) => {
      const limiter = createLimiter({ concurrency: 1 });
      limiter.run(() => kit.inner('busy')).subscribe();
      return hedged({ delayMs: 2, limiter })(kit);
    },
  }),
  spec({
    title: 'continues without a hedge that gets no permit',
    label: 'hedge(call, { delayMs: 2, limiter }), one slot and no queue',
    inners: { first:         '-----(a|)', second: '(b|)' },
    subscriptions: { first:  '^----!', second: [] },
    expected:                '-----(a|)',
    build: (kit) => hedged({ delayMs: 2, limiter: createLimiter({ concurrency: 1, maxQueued: 0 }) })(kit),
  }),
  spec({
    title: 'stops every attempt when the consumer leaves',
    shows: 'early leave',
    label: 'hedge(call, { delayMs: 2 })',
    inners: { first:         '------(a|)', second: '------(b|)' },
    subscriptions: { first:  '^---!', second: '--^-!' },
    expected:                '-----',
    unsub:                   '^---!',
    build: hedged({ delayMs: 2 }),
  }),
  spec({
    title: 'leaves a synchronous attempt as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'hedge(call), take(1)',
    inners: { first:         '(abc|)' },
    subscriptions: { first:  '(^!)' },
    expected:                '(a|)',
    synchronous: ['first'],
    build: (kit) => hedged()(kit).pipe(take(1)),
  }),
  spec({
    title: 'turns a throwing delay into an error',
    shows: 'throwing callback',
    label: 'hedge(call, { delayMs: throws })',
    inners: { first:         'a|' },
    subscriptions: { first: [] },
    expected:                '#',
    error: new CallbackError('hedge', 'delayMs', 'threw', broken),
    build: hedged({ delayMs: () => { throw broken; } }),
  }),
  spec({
    title: 'is subscribed to once more from inside its own answer, and hedges as before',
    shows: 're-entrant source',
    label: 'hedge(call, { delayMs: 3 }), the consumer answers b by subscribing again, once',
    inners: { first:         '-----(a|)', second: '-(b|)' },
    subscriptions: { first:  ['^---!', '----^---!'], second: ['---^!', '-------^!'] },
    expected:                '----b---(b|)',
    build: (kit) => {
      const call = hedged({ delayMs: 3 })(kit);
      return call.pipe(expand((_answer, index) => (index === 0 ? call : EMPTY)));
    },
  }),
];
