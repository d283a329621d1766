import { of } from 'rxjs';
import { callAll, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const models = createModelCaller({ call: (request: string) => of(request) });

export const rows: MisuseTable = {
  operator: 'callAll',
  create: (options) => callAll(models, {}, options),
  calls: { requests: (requests) => callAll(models, requests) },
  rows: [
    ...badly('requests', 'an object', null, undefined, 5, 'a'),
    ...badly('errors', "one of 'propagate', 'settle', 'collect'", 'any', null, 5),
    ...badly('deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '600', null),
    ...unknown('name', 'lane, key, signal, traceId, errors, deadlineMs', 'a'),
  ],
};
