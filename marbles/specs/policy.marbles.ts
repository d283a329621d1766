import { EMPTY, expand, map, mergeMap, of, take, timer } from 'rxjs';
import type { PolicyOptions } from '../../operators/index.js';
import { AttemptTimeoutError, BreakerOpenError, CallbackError, createBreaker, createLimiter, DeadlineError, policy, retryFailed } from '../../operators/index.js';
import type { MarbleSpec, SpecKit } from '../spec.js';

const busy = Object.assign(new Error('status 503'), { status: 503 });
const refused = Object.assign(new Error('status 401'), { status: 401 });

/** Attempt 1 is the inner stream `first`, then `second` and `third`. */
const NAMES = ['first', 'second', 'third'];
const tried = (options: PolicyOptions<string> = {}) => ({ inner }: SpecKit) =>
  policy<string>(options)(({ attempt }) => inner(NAMES[attempt - 1] ?? ''));

/** Pauses of 2, 4, … ms. */
const retry = retryFailed({ delayMs: 2, jitter: 'none' });

const spec = (given: Omit<MarbleSpec, 'operator' | 'inputs'>): MarbleSpec => ({ operator: 'policy', inputs: {}, ...given });

export const specs: readonly MarbleSpec[] = [
  spec({
    title: 'tries again after a pause that doubles',
    label: "policy({ retry: retryFailed({ delayMs: 2, jitter: 'none' }) })(call)",
    inners: { first:         '-#',
              second:           '-#',
              third:                 '-(c|)' },
    subscriptions: { first:  '^!',
                     second: '---^!',
                     third:  '--------^!' },
    expected:                '---------(c|)',
    error: busy,
    cover: true,
    options: { delayMs: 2 },
    build: (kit) => tried({ retry: retryFailed({ jitter: 'none', ...kit.options }) })(kit),
  }),
  spec({
    title: 'waits longer by the same step with a function of the attempt',
    label: "policy({ retry: retryFailed({ delayMs: (attempt) => attempt * 3, jitter: 'none' }) })(call)",
    inners: { first:         '-#',
              second:            '-#',
              third:                    '-(c|)' },
    subscriptions: { first:  '^!',
                     second: '----^!',
                     third:  '-----------^!' },
    expected:                '------------(c|)',
    error: busy,
    build: tried({ retry: retryFailed({ delayMs: (attempt) => attempt * 3, jitter: 'none' }) }),
  }),
  spec({
    title: 'stops after three attempts, with the last error',
    shows: 'error',
    label: "policy({ retry: retryFailed({ delayMs: 2, jitter: 'none' }) })(call)",
    inners: { first:         '-#', second: '-#', third: '-#' },
    subscriptions: { first:  '^!', second: '---^!', third: '--------^!' },
    expected:                '---------#',
    error: busy,
    build: tried({ retry }),
  }),
  spec({
    title: 'does not try again what cannot get better',
    label: "policy({ retry: retryFailed({ delayMs: 2, jitter: 'none' }) })(call)",
    inners: { first:         '-#', second: '(b|)' },
    subscriptions: { second: [] },
    expected:                '-#',
    error: refused,
    build: tried({ retry }),
  }),
  spec({
    title: 'does not try again once a value has been handed on',
    label: "policy({ retry: retryFailed({ delayMs: 2, jitter: 'none' }) })(call)",
    inners: { first:         'a-b#', second: '(c|)' },
    subscriptions: { second: [] },
    expected:                'a-b#',
    error: busy,
    build: tried({ retry }),
  }),
  spec({
    title: 'cuts off an attempt that takes too long, and tries again',
    label: "policy({ timeoutMs: 4, retry: retryFailed({ delayMs: 2, jitter: 'none' }) })(call)",
    inners: { first:         '-',
              second:              '--(b|)' },
    subscriptions: { first:  '^---!',
                     second: '------^-!' },
    expected:                '--------(b|)',
    build: tried({ timeoutMs: 4, retry }),
  }),
  spec({
    title: 'does not repeat what may have had its effect',
    label: "policy({ timeoutMs: 4, idempotent: false, retry: retryFailed({ delayMs: 2, jitter: 'none' }) })(call)",
    inners: { first:         '-', second: '(b|)' },
    subscriptions: { first:  '^---!', second: [] },
    expected:                '----#',
    error: new AttemptTimeoutError('policy', 4),
    build: tried({ timeoutMs: 4, idempotent: false, retry }),
  }),
  spec({
    title: 'ends everything at the deadline',
    label: 'policy({ deadlineMs: 6 })(call)',
    inners: { first:         '---------(a|)' },
    subscriptions: { first:  '^-----!' },
    expected:                '------#',
    error: new DeadlineError('policy', 6, 6),
    build: tried({ deadlineMs: 6 }),
  }),
  spec({
    title: 'stops at once when the next pause goes beyond the deadline',
    label: "policy({ deadlineMs: 6, retry: retryFailed({ delayMs: 9, jitter: 'none' }) })(call)",
    inners: { first:         '-#', second: '(b|)' },
    subscriptions: { second: [] },
    expected:                '-(l|)',
    error: busy,
    values: { l: 'DeadlineError after 1 ms, because of status 503' },
    build: tried({
      deadlineMs: 6,
      retry: retryFailed({ delayMs: 9, jitter: 'none' }),
      fallback: (error) => {
        const { name, elapsedMs, cause } = error as DeadlineError;
        return of(`${name} after ${String(elapsedMs)} ms, because of ${(cause as Error).message}`);
      },
    }),
  }),
  spec({
    title: 'refuses the call while the breaker is open, without making it',
    label: 'policy({ breaker })(call), the breaker is open',
    inners: { first:         '(a|)' },
    subscriptions: { first: [] },
    expected:                '#',
    error: new BreakerOpenError('createBreaker', Infinity),
    build: (kit) => {
      const breaker = createBreaker();
      breaker.trip();
      return tried({ breaker })(kit);
    },
  }),
  spec({
    title: 'asks the breaker before each attempt: one that has opened during the pause ends the call',
    label: "policy({ breaker, retry: retryFailed({ delayMs: 4, jitter: 'none' }) })(call), the breaker opens after 3 ms",
    inners: { first:         '-#', second: '(b|)' },
    subscriptions: { first:  '^!', second: [] },
    expected:                '---(o|)',
    error: busy,
    values: { o: 'BreakerOpenError, because of status 503' },
    build: (kit) => {
      const breaker = createBreaker();
      timer(3).subscribe(() => { breaker.trip(); });
      return tried({
        breaker,
        retry: retryFailed({ delayMs: 4, jitter: 'none' }),
        fallback: (error) => of(`${(error as Error).name}, because of ${((error as Error).cause as Error).message}`),
      })(kit);
    },
  }),
  spec({
    title: 'takes a call out of the queue when the circuit opens',
    label: 'policy({ breaker, limiter })(call), one slot, in use; the breaker opens after 3 ms',
    inners: { first:         '(a|)' },
    subscriptions: { first: [] },
    expected:                '---#',
    error: new BreakerOpenError('createBreaker', Infinity),
    build: (kit) => {
      const [breaker, limiter] = [createBreaker(), createLimiter({ concurrency: 1 })];
      timer(3).subscribe(() => { breaker.trip(); });
      limiter.run(() => timer(9)).subscribe();
      return tried({ breaker, limiter })(kit);
    },
  }),
  spec({
    title: "waits for the circuit with whenOpen: 'wait', without a permit",
    label: "policy({ breaker, limiter, whenOpen: 'wait' })(call), the breaker is open for 5 ms; another call of the limiter, one slot",
    inners: { other:         '--(o|)',
              first:              '-(a|)' },
    subscriptions: { other:  '^-!',
                     first:  '-----^!' },
    expected:                '------(a|)',
    build: (kit) => {
      const [breaker, limiter] = [createBreaker(), createLimiter({ concurrency: 1 })];
      breaker.trip();
      timer(5).subscribe(() => { breaker.reset(); });
      const call = tried({ breaker, limiter, whenOpen: 'wait' })(kit);
      timer(0).pipe(mergeMap(() => limiter.run(() => kit.inner('other')))).subscribe();
      return call;
    },
  }),
  spec({
    title: 'answers with the fallback when everything else has failed',
    label: 'policy({ fallback })(call)',
    inners: { first:         '-#', instead: '-f-g|' },
    expected:                '--f-g|',
    subscriptions: { instead: '-^---!' },
    error: busy,
    build: (kit) => tried({ fallback: () => kit.inner('instead') })(kit),
  }),
  spec({
    title: 'holds no slot during a pause: others go first',
    label: "policy({ limiter, retry: retryFailed({ delayMs: 2, jitter: 'none' }) })(call) beside another call; one slot",
    inners: { first:         '-#',
              other:          '--(o|)',
              second:           '--(b|)' },
    subscriptions: { first:  '^!',
                     other:  '-^-!',
                     second: '---^-!' },
    expected:                '-----(b|)',
    error: busy,
    build: (kit) => {
      const limiter = createLimiter({ concurrency: 1 });
      const call = tried({ limiter, retry })(kit);
      timer(1).pipe(mergeMap(() => limiter.run(() => kit.inner('other')))).subscribe();
      return call;
    },
  }),
  spec({
    title: 'makes one attempt when that answers',
    shows: 'one',
    label: 'policy()(call)',
    inners: { first:         '--(a|)' },
    expected:                '--(a|)',
    build: tried(),
  }),
  spec({
    title: 'emits every value as it comes',
    shows: 'many',
    label: 'policy()(call)',
    inners: { first:         'a--b-c|' },
    expected:                'a--b-c|',
    build: tried(),
  }),
  spec({
    title: 'completes with work that has nothing to say',
    shows: 'empty',
    label: 'policy()(call)',
    inners: { first:         '--|' },
    expected:                '--|',
    build: tried(),
  }),
  spec({
    title: 'waits for work that never ends, when it may take for ever',
    shows: 'never',
    label: 'policy({ timeoutMs: Infinity })(call)',
    inners: { first:         '-' },
    subscriptions: { first:  '^ 99s !' },
    expected:                '-',
    unsub:                   '^ 99s !',
    build: tried({ timeoutMs: Infinity }),
  }),
  spec({
    title: 'stops the attempt when the consumer leaves',
    shows: 'early leave',
    label: 'policy()(call)',
    inners: { first:         '------(a|)' },
    subscriptions: { first:  '^--!' },
    expected:                '----',
    unsub:                   '^--!',
    build: tried(),
  }),
  spec({
    title: 'makes no further attempt when the consumer leaves during a pause',
    label: "policy({ retry: retryFailed({ delayMs: 4, jitter: 'none' }) })(call)",
    inners: { first:         '-#', second: '(b|)' },
    subscriptions: { first:  '^!', second: [] },
    expected:                '----',
    unsub:                   '^--!',
    error: busy,
    build: tried({ retry: retryFailed({ delayMs: 4, jitter: 'none' }) }),
  }),
  spec({
    title: 'errors when the source of randomness breaks',
    shows: 'throwing callback',
    label: 'policy({ retry: retryFailed(), random: throws })(call)',
    expected:                '-#',
    error: new CallbackError('policy', 'random', 'threw', busy),
    build: ({ watch }) => {
      const fails = timer(1).pipe(map(() => { throw busy; }));
      return policy({ retry, random: () => { throw busy; } })(() => watch('first', fails));
    },
  }),
  spec({
    title: 'leaves synchronous work as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'policy()(call), take(1)',
    inners: { first:         '(abc|)' },
    subscriptions: { first:  '(^!)' },
    expected:                '(a|)',
    synchronous: ['first'],
    build: (kit) => tried()(kit).pipe(take(1)),
  }),
  spec({
    title: 'starts afresh for a consumer that subscribes again from inside its own answer',
    shows: 're-entrant source',
    label: 'policy()(call), the consumer answers a by subscribing again, once',
    inners: { first:         '--(a|)' },
    subscriptions: { first: ['^-!', '--^-!'] },
    expected:                '--a-(a|)',
    build: (kit) => {
      const call = tried()(kit);
      return call.pipe(expand((_answer, index) => (index === 0 ? call : EMPTY)));
    },
  }),
];
