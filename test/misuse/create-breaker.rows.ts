import { of } from 'rxjs';
import { createBreaker } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known = 'failureRatio, minCalls, windowMs, openMs, maxOpenMs, probes, classify, counts, scheduler, onEvent';
const classes = "a list of at least one of 'throttled', 'transient', 'timeout', 'tooLarge', 'itemFault', 'fatal', 'contract'";

export const rows: MisuseTable = {
  operator: 'createBreaker',
  create: (options) => createBreaker(options),
  calls: { 'run.work': (work) => createBreaker().run(work) },
  rows: [
    ...badly('failureRatio', 'a number from 0 to 1', -0.1, 1.1, 50, NaN, Infinity, '0.5', null),
    ...badly('minCalls', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '10', null),
    ...badly('windowMs', 'a number > 0 or Infinity', 0, -1, NaN, '30000', null),
    ...badly('openMs', 'a number > 0 or Infinity', 0, -1, NaN, '5000', null),
    ...badly('maxOpenMs', 'a number > 0 or Infinity', 0, -1, NaN, '60000', null),
    ...badly('maxOpenMs', 'at least `openMs` (5000)', 1, 4999),
    ...badly('probes', 'a whole number >= 1', 0, -1, 1.5, NaN, Infinity, '1', null),
    ...badly('classify', 'a function', 'fatal', null, {}),
    ...badly('counts', classes, 'timeout', null, {}, [], ['cancelled'], ['transient', 'server'], 5),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('run.work', 'a function', undefined, null, 5, {}, of(1)),
    ...badly('threshold', `absent (known options: ${known})`, 5),
  ],
};
