import { of } from 'rxjs';
import { switchLatest } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'errors, onSourceError, key, onSuperseded, scheduler, onEvent, name';

export const rows: MisuseTable = {
  operator: 'switchLatest',
  create: (options) => switchLatest(() => of(1), options),
  calls: { project: (project) => switchLatest(project) },
  rows: [
    ...badly('project', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...badly('errors', "one of 'settle', 'propagate'", 'values', true, null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('key', 'a function', 'id', 1, null, {}),
    ...badly('onSuperseded', 'a function', 'log', 1, null, console),
    ...unknown('debounceMs', known, 5),
    ...badly('onSourceError', "one of 'flush', 'abort', 'drain'", 'ignore', false, null, 0),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...unknown('debounce', known, 5),
  ],
};
