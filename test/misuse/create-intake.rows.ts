import { createIntake } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known = 'maxQueued, maxWaiting, highWater, lowWater, lanes, lane, onEvent, scheduler, name';

/** What is said in a call, not when the intake is made. */
const calls: Readonly<Record<string, (value: never) => unknown>> = {
  'offer.offer options': (value) => createIntake().offer(1, value),
  'OfferOptions.priority': (value) => createIntake().offer(1, { priority: value } as never),
  'OfferOptions.lane': (value) => createIntake({ lanes: [{ name: 'p0' }] }).offer(1, { lane: value }),
  'OfferOptions.signal': (value) => createIntake().offer(1, { signal: value }),
  'drain.drain options': (value) => createIntake().drain(value),
  'DrainOptions.timeout': (value) => createIntake().drain({ timeout: value } as never),
  'shutdownOn.signal': (value) => createIntake().shutdownOn(value),
  'DrainOptions.timeoutMs': (value) => createIntake().drain({ timeoutMs: value }),
};

/** `lanes` names the lane and its field. */
const create = (options: Readonly<Record<string, unknown>>): unknown => {
  const names = Object.keys(Object(options) as object);
  const path = names.find((option) => option.startsWith('lanes['));
  if (path === undefined) return createIntake(options);
  const field = /^lanes\[0\](?:\.(.+))?$/.exec(path)?.[1];
  return createIntake({ lanes: [field === undefined ? options[path] : { name: 'p0', [field]: options[path] }] as never });
};

export const rows: MisuseTable = {
  operator: 'createIntake',
  create,
  calls,
  rows: [
    ...badly('maxQueued', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, -Infinity, '16', null, {}),
    ...badly('maxWaiting', 'a whole number >= 0 or Infinity', -1, 1.5, NaN, -Infinity, '16', null, {}),
    ...badly('highWater', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '8', null),
    ...badly('highWater', 'at most `maxQueued` (16)', 17, Infinity),
    ...badly('lowWater', 'a whole number >= 0 or Infinity', -1, 0.5, NaN, '4', null),
    ...badly('lowWater', 'less than `highWater` (13)', 13, 16, Infinity),
    ...badly('lanes', 'a list of at least one lane', [], {}, 'p0', 3, null),
    ...badly('lanes[0]', 'an object', null, 'p0', 5),
    ...badly('lanes[0].name', 'a non-empty string', '', 5, undefined),
    ...badly('lanes[0].floor', 'a number from 0 to 1', -0.1, 1.5, NaN, Infinity, '0.1', null),
    ...badly('lanes[0].maxQueued', 'a whole number >= 0 or Infinity', -1, 0.5, NaN, '5', null),
    ...badly('lanes[0].overflow', "one of 'error'", 'dropOldest', 'block', 5, null),
    ...badly('lanes[0].maxWaitMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null, {}),
    ...badly('lanes[0].share', 'a finite number > 0', NaN, 0, -1, Infinity, '1', null, {}),
    ...badly('lanes[0].piggyback', 'true or false', 0, 1, 'no', null, {}),
    ...badly('lane', 'a function', 'p0', 0, null, {}),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('capacity', `absent (known options: ${known})`, 4),
    ...badly('offer.offer options', 'an object', null, 5, 'urgent'),
    ...badly('OfferOptions.priority', 'absent (known options: lane, signal)', 5),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 0, 'text', null, {}, () => undefined),
    ...badly('OfferOptions.signal', 'an AbortSignal', null, 5, {}, new AbortController()),
    ...badly('drain.drain options', 'an object', null, 5, 'now'),
    ...badly('DrainOptions.timeout', 'absent (known options: timeoutMs)', 5),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
  ],
};
