import { of } from 'rxjs';
import { createBreaker } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known = 'opens, closes, openMs, maxOpenMs, classify, counts, state, scheduler, onEvent, name';
const classes = "a list of at least one of 'throttled', 'transient', 'timeout', 'tooLarge', 'itemFault', 'fatal', 'contract'";

export const rows: MisuseTable = {
  operator: 'createBreaker',
  create: (options) => createBreaker(options),
  calls: { 'run.work': (work) => createBreaker().run(work) },
  rows: [
    ...badly('opens', '`failureShare({ … })` or `failuresInARow(n)`', 5, null, 'share', {}, { probes: 1 }),
    ...badly('closes', '`probeShare({ … })`', 5, null, 'all', {}),
    ...badly('state', 'what `save()` of a breaker has returned', 5, null, 'open', {}, { state: 'open' }),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('openMs', 'a number > 0 or Infinity', 0, -1, NaN, '5000', null),
    ...badly('maxOpenMs', 'a number > 0 or Infinity', 0, -1, NaN, '60000', null),
    ...badly('maxOpenMs', 'at least `openMs` (5000)', 1, 4999),
    ...badly('classify', 'a function', 'fatal', null, {}),
    ...badly('counts', classes, 'timeout', null, {}, [], ['cancelled'], ['transient', 'server'], 5),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('run.work', 'a function', undefined, null, 5, {}, of(1)),
    ...badly('threshold', `absent (known options: ${known})`, 5),
  ],
};
