import { createIntake, lanes } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown } from '../support/misuse.js';

const known = 'maxQueued, highWater, lowWater, queue, onEvent, name, scheduler';

/** What is said in a call, not when the intake is made. */
const calls: Readonly<Record<string, (value: never) => unknown>> = {
  'offer.offer options': (value) => createIntake().offer(1, value),
  'OfferOptions.priority': (value) => createIntake().offer(1, { priority: value } as never),
  'OfferOptions.lane': (value) => createIntake({ queue: lanes([{ name: 'p0' }]) }).offer(1, { lane: value }),
  'OfferOptions.signal': (value) => createIntake().offer(1, { signal: value }),
  'drain.drain options': (value) => createIntake().drain(value),
  'DrainOptions.timeout': (value) => createIntake().drain({ timeout: value } as never),
  'shutdownOn.signal': (value) => createIntake().shutdownOn(value),
  'DrainOptions.timeoutMs': (value) => createIntake().drain({ timeoutMs: value }),
};

export const rows: MisuseTable = {
  operator: 'createIntake',
  create: (options: Readonly<Record<string, unknown>>) => createIntake(options),
  calls,
  rows: [
    ...badly('maxQueued', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, -Infinity, '16', null, {}, () => 5),
    ...badly('highWater', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '8', null),
    ...badly('highWater', 'at most `maxQueued` (16)', 17, Infinity),
    ...badly('lowWater', 'a whole number >= 0 or Infinity', -1, 0.5, NaN, '4', null),
    ...badly('lowWater', 'less than `highWater` (13)', 13, 16, Infinity),
    ...badly('queue', 'lanes([…])', 'p0', 3, null, {}, [], [{ name: 'p0' }]),
    {
      option: 'queue',
      value: lanes([{ name: 'p0', overflow: 'dropOldest' }]),
      problem: 'lanes of an intake cannot have `overflow`: it never drops waiting items',
      expected: 'Remove `overflow` from the lanes.',
    },
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...unknown('capacity', known, 4),
    ...badly('offer.offer options', 'an object', null, 5, 'urgent'),
    ...unknown('OfferOptions.priority', 'lane, signal', 5),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 0, 'text', null, {}, () => undefined),
    ...badly('OfferOptions.signal', 'an AbortSignal', null, 5, {}, new AbortController()),
    ...badly('drain.drain options', 'an object', null, 5, 'now'),
    ...misspelt('DrainOptions.timeout', 'timeoutMs', 5),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
  ],
};
