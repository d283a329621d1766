import { badly, unknown } from '../support/misuse.js';

const known = 'maxQueued, overflow, signal, onEvent';

/** What `toAsyncIterable` and `toReadableStream` refuse. */
export const pullRows = [
  ...badly('maxQueued', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, -Infinity, '10', null, {}),
  ...badly('overflow', "one of 'error', 'dropOldest', 'dropNewest', 'latest'", 'dropLowest', '', NaN, 0, 1.5, Infinity, null, {}),
  ...badly('signal', 'an AbortSignal', NaN, 0, Infinity, 'abort', null, {}, new AbortController(), new EventTarget()),
  ...badly('onEvent', 'a function', NaN, 0, -1, 1.5, Infinity, 'log', null, console),
  ...unknown('highWaterMark', known, 16),
  ...unknown('maxWaitMs', known, 10),
];
