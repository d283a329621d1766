import { aguiFlow } from '../../src/adapters/ag-ui.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { nested } from './call-rules.js';

const KNOWN = 'fetch, key, coalesce, tools, cancelledAs, onSupersede, limiter, job, scheduler';

export const rows: MisuseTable = {
  operator: 'aguiFlow',
  create: (options) => aguiFlow(nested(options) as never),
  rows: [
    ...badly('fetch', 'a function', null, 5, {}, 'https://host'),
    ...badly('key', 'a function', null, 'threadId', {}),
    ...badly('coalesce', 'an object', null, 16, 'frame', true),
    ...badly('coalesce.maxChars', 'a number > 0 or Infinity', 0, '4096'),
    ...unknown('coalesce.flush', 'pace, maxWaitMs, maxChars, scheduler', true),
    ...badly('tools', 'a tool runner', null, 5, [], {}, 'search'),
    ...badly('cancelledAs', "one of 'finished', 'error'", null, true, 'cancelled'),
    ...badly('onSupersede', 'a function', null, 5, '/stop', {}),
    ...badly('limiter', 'a limiter made by createLimiter or createAccount', null, 5, {}, 'limiter'),
    ...badly('job', 'a function', null, 5, { lane: 'user' }),
    ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
    ...unknown('maxWaitMs', KNOWN, 16),
  ],
};
