import { flowTransport } from '../../src/adapters/ai-sdk.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'pace, maxWaitMs, maxChars, scheduler, supersede';
const transport = {
  sendMessages: () => Promise.resolve(new ReadableStream<never>()),
  reconnectToStream: () => Promise.resolve(null),
};

export const rows: MisuseTable = {
  operator: 'flowTransport',
  create: (options) => flowTransport(transport, options),
  calls: { transport: (given: never) => flowTransport(given) },
  rows: [
    ...badly('transport', 'a ChatTransport of the AI SDK', undefined, null, {}, '/api/chat', { sendMessages: () => undefined }),
    ...badly('supersede', 'true or false', null, 0, 'chat', {}),
    ...badly('pace', "one of 'time', 'frame'", 'idle', 60, null, {}),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '16', null, true, {}),
    ...badly('maxChars', 'a number > 0 or Infinity', NaN, 0, -1, '4096', null, true, {}),
    ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
    ...unknown('throttle', known, 50),
  ],
};
