import { merge, Subject, take, tap } from 'rxjs';
import type { Limiter, RateLimitOptions } from '../../operators/index.js';
import { CallbackError, createLimiter, ItemTooHeavyError, OverflowError, perMinute, rateLimit, slidingWindow } from '../../operators/index.js';
import type { MarbleSpec } from '../spec.js';

const fault = new Error('the source broke');

/** One request in four frames. */
const slow = (): Limiter => createLimiter({ rates: [perMinute('requests', 15_000, { burst: 1 })], headroom: 1 });

/** A token in each frame, ten saved up at most. */
const metered = (): Limiter => createLimiter({ rates: [perMinute('tokens', 60_000, { burst: 10 })], headroom: 1 });

/** Ten tokens in any four frames, and no credit. */
const windowed = (): Limiter => createLimiter({ rates: [slidingWindow({ unit: 'tokens', amount: 10, windowMs: 4 })], headroom: 1 });

/** Digits cost as many tokens as they say. */
const tokens = (digit: string): { readonly tokens: number } => ({ tokens: Number(digit) });

/** One request in four frames, from a limiter of its own. */
const alone =
  (options?: RateLimitOptions<string>): MarbleSpec['build'] =>
  ({ input }) =>
    input('source').pipe(rateLimit(slow(), {}, options));

const byTokens =
  (settings?: RateLimitOptions<string>, limiter = metered): MarbleSpec['build'] =>
  ({ input }) =>
    input('source').pipe(rateLimit(limiter(), tokens, settings));

const SLOW = "limiter = createLimiter({ rates: [perMinute('requests', 15000, { burst: 1 })] })";
const METERED = "limiter = createLimiter({ rates: [perMinute('tokens', 60000, { burst: 10 })] })";

export const specs: readonly MarbleSpec[] = [
  {
    operator: 'rateLimit',
    title: 'emits each item when the limiter admits it',
    shows: 'many',
    label: `${SLOW}, rateLimit(limiter)`,
    inputs: { source:        '-abc-------d--|' },
    subscriptions: { source: '^-------------!' },
    expected:                '-a---b---c---d|',
    cover: true,
    build: alone(),
  },

  // What every operator must answer for.
  {
    operator: 'rateLimit',
    title: 'waits for a source that never emits',
    shows: 'never',
    label: `${SLOW}, rateLimit(limiter)`,
    inputs: { source:        '-' },
    subscriptions: { source: '^ 999ms !' },
    expected:                '-',
    unsub:                   '^ 999ms !',
    build: alone(),
  },
  {
    operator: 'rateLimit',
    title: 'completes with an empty source',
    shows: 'empty',
    label: `${SLOW}, rateLimit(limiter)`,
    inputs: { source:        '---|' },
    subscriptions: { source: '^--!' },
    expected:                '---|',
    build: alone(),
  },
  {
    operator: 'rateLimit',
    title: 'emits a single item at once when no job waits',
    shows: 'one',
    label: `${SLOW}, rateLimit(limiter)`,
    inputs: { source:        '--(a|)' },
    subscriptions: { source: '^-!' },
    expected:                '--(a|)',
    build: alone(),
  },
  {
    operator: 'rateLimit',
    title: 'drops waiting items at the error of the source, and errors at once',
    shows: 'error',
    label: `${SLOW}, rateLimit(limiter)`,
    inputs: { source:        '-ab#' },
    subscriptions: { source: '^--!' },
    expected:                '-a-#',
    error: fault,
    build: alone(),
  },
  {
    operator: 'rateLimit',
    title: "emits waiting items before the error of the source with onSourceError 'flush'",
    label: `${SLOW}, rateLimit(limiter, {}, { onSourceError: 'flush' })`,
    inputs: { source:        '-abc#' },
    subscriptions: { source: '^---!' },
    expected:                '-a---b---(c#)',
    error: fault,
    build: alone({ onSourceError: 'flush' }),
  },
  {
    operator: 'rateLimit',
    title: 'emits waiting items before it completes',
    label: `${SLOW}, rateLimit(limiter)`,
    inputs: { source:        '-(abc|)' },
    subscriptions: { source: '^!' },
    expected:                '-a---b---(c|)',
    build: alone(),
  },
  {
    operator: 'rateLimit',
    title: 'drops waiting items when the consumer leaves',
    shows: 'early leave',
    label: `${SLOW}, rateLimit(limiter)`,
    inputs: { source:        '-abc---------|' },
    subscriptions: { source: '^-----!' },
    expected:                '-a---b--------',
    unsub:                   '^-----!',
    build: alone(),
  },
  {
    operator: 'rateLimit',
    title: 'leaves a synchronous source as soon as the consumer has enough',
    shows: 'synchronous source',
    label: 'limiter = createLimiter(), rateLimit(limiter), take(2)',
    inputs: { source:        '(abcdef|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(ab|)',
    synchronous: ['source'],
    build: ({ input }) => input('source').pipe(rateLimit(createLimiter()), take(2)),
  },
  {
    operator: 'rateLimit',
    title: 'turns a throwing callback into an error when the turn of the item comes',
    shows: 'throwing callback',
    label: `${SLOW}, rateLimit(limiter, throwsAtC)`,
    inputs: { source:        '-abcd-------|' },
    subscriptions: { source: '^----!' },
    expected:                '-a---(b#)',
    error: new CallbackError('rateLimit', 'cost', 'threw', fault),
    build: ({ input }) =>
      input('source').pipe(rateLimit(slow(), (item) => { if (item === 'c') throw fault; return {}; })),
  },
  {
    operator: 'rateLimit',
    title: 'queues items that the consumer sends back behind waiting items',
    shows: 're-entrant source',
    label: `${SLOW}, rateLimit(limiter), the consumer answers b with d`,
    inputs: { source:        '-abc---------' },
    expected:                '-a---b---c---d',
    build: ({ input }) => {
      const loop = new Subject<string>();
      const answer = (item: string): void => {
        if (item === 'b') loop.next('d');
      };
      return merge(input('source'), loop).pipe(rateLimit(slow()), tap(answer));
    },
  },

  // What items cost. Digits cost as many tokens as they say.
  {
    operator: 'rateLimit',
    title: 'admits in order of arrival: a cheap item does not overtake an expensive one',
    label: `${METERED}, rateLimit(limiter, tokens)`,
    inputs: { source:        '981-----------|' },
    subscriptions: { source: '^-------------!' },
    expected:                '9------81-----|',
    build: byTokens(),
  },
  {
    operator: 'rateLimit',
    title: 'charges every item the same when the cost is no function',
    label: `${METERED}, rateLimit(limiter, { tokens: 5 })`,
    inputs: { source:        '(abcd|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(ab)-c----(d|)',
    build: ({ input }) => input('source').pipe(rateLimit(metered(), { tokens: 5 })),
  },
  {
    operator: 'rateLimit',
    title: 'counts requests as well as tokens',
    label: `${SLOW}, rateLimit(limiter, { requests: 2 })`,
    inputs: { source:        '(abc|)' },
    expected:                'a-------b-------(c|)',
    build: ({ input }) => input('source').pipe(rateLimit(slow(), { requests: 2 })),
  },
  {
    operator: 'rateLimit',
    title: 'errors at an item that can never be paid, in its turn',
    label: "limiter = createLimiter({ rates: [slidingWindow({ unit: 'tokens', amount: 10, windowMs: 4 })] }), rateLimit(limiter, tokens)",
    inputs: { source:        '-8-6x----|' },
    subscriptions: { source: '^----!' },
    expected:                '-8---(6#)',
    values: { x: '11' },
    error: new ItemTooHeavyError('rateLimit', 11, 10, 'tokens'),
    build: byTokens({}, windowed),
  },
  {
    operator: 'rateLimit',
    title: 'takes turns with the other jobs that wait for the limiter',
    label: `${SLOW}, rateLimit(limiter) twice`,
    inputs: { source:        '(abc|)',
              others:        '(xyz|)' },
    expected:                'a---b---x---c---y---(z|)',
    build: ({ input }) => {
      const limiter = slow();
      return merge(input('source').pipe(rateLimit(limiter)), input('others').pipe(rateLimit(limiter)));
    },
  },

  // The bound.
  {
    operator: 'rateLimit',
    title: 'errors at the item that exceeds maxQueued',
    label: `${SLOW}, rateLimit(limiter, {}, { maxQueued: 2 })`,
    inputs: { source:        '(abcd|)' },
    subscriptions: { source: '(^!)' },
    expected:                '(a#)',
    error: new OverflowError('rateLimit', 2, 'error'),
    build: alone({ maxQueued: 2 }),
  },
  {
    operator: 'rateLimit',
    title: 'drops the oldest to make room',
    label: `${SLOW}, rateLimit(limiter, {}, { maxQueued: 2, overflow: 'dropOldest' })`,
    inputs: { source:        'abcd---------|' },
    expected:                'a---c---d----|',
    build: alone({ maxQueued: 2, overflow: 'dropOldest' }),
  },
  {
    operator: 'rateLimit',
    title: 'drops the newest',
    label: `${SLOW}, rateLimit(limiter, {}, { maxQueued: 2, overflow: 'dropNewest' })`,
    inputs: { source:        'abcd---------|' },
    expected:                'a---b---c----|',
    build: alone({ maxQueued: 2, overflow: 'dropNewest' }),
  },
  {
    operator: 'rateLimit',
    title: 'drops all that waits in favour of the newest',
    label: `${SLOW}, rateLimit(limiter, {}, { maxQueued: 2, overflow: 'latest' })`,
    inputs: { source:        'abcd---------|' },
    expected:                'a---d--------|',
    build: alone({ maxQueued: 2, overflow: 'latest' }),
  },
  {
    operator: 'rateLimit',
    title: 'emits items that can pass at once and drops the rest with maxQueued 0',
    label: `${SLOW}, rateLimit(limiter, {}, { maxQueued: 0, overflow: 'dropNewest' })`,
    inputs: { source:        'abcdefgh-----|' },
    expected:                'a---e--------|',
    build: alone({ maxQueued: 0, overflow: 'dropNewest' }),
  },
  {
    operator: 'rateLimit',
    title: 'asks what the new first item costs when the first is dropped',
    label: `${METERED}, rateLimit(limiter, tokens, { maxQueued: 1, overflow: 'dropOldest' })`,
    inputs: { source:        '99-1---------|' },
    expected:                '9--1---------|',
    build: byTokens({ maxQueued: 1, overflow: 'dropOldest' }),
  },
];
