import { fromEventStream } from '../../src/adapters/fetch.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';

const known = 'fetch, reconnect, reconnectAtEnd, maxEventChars, scheduler, random';

export const rows: MisuseTable = {
  operator: 'fromEventStream',
  create: (options) => fromEventStream('http://host/', options),
  calls: {
    request: (request: never) => fromEventStream(request),
    'options.reconnect.maxAttempts': (maxAttempts: never) => fromEventStream('http://host/', { reconnect: { maxAttempts } }),
    'factory.fetch': (fetch: never) => fromEventStream(() => new Response(), { fetch }),
  },
  rows: [
    ...badly('request', 'a URL, a Request or a function', undefined, null, 5, {}),
    ...badly('fetch', 'a function', null, 5, 'fetch', {}),
    ...wrong(
      'factory.fetch',
      '`{option}` cannot be combined with a function that makes the call',
      'Call your `fetch` inside the function.',
      fetch,
    ),
    ...badly('reconnect', 'an object or false', null, true, 3, 'always'),
    ...badly('options.reconnect.maxAttempts', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '3', null),
    ...badly('reconnectAtEnd', 'true or false', null, 0, 'yes', {}),
    ...badly('maxEventChars', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '100', null, true),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('random', 'a function', null, 0.5, 'chance', {}),
    ...unknown('retry', known, {}),
  ],
};
