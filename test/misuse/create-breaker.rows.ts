import { of } from 'rxjs';
import type { BreakerOptions } from '../../operators/index.js';
import { createBreaker } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'opens, closes, openMs, classify, restore, scheduler, onEvent, name';

/** Options, and those of `opens` and `closes` under dotted names. */
function nested(options: Readonly<Record<string, unknown>>): BreakerOptions {
  if (typeof options !== 'object' || (options as unknown) === null) return options;
  const entries = Object.entries(options).map(([name, value]) => {
    const [group = '', option] = name.split('.');
    return [group, option === undefined ? value : { [option]: value }];
  });
  return Object.fromEntries(entries) as BreakerOptions;
}

export const rows: MisuseTable = {
  operator: 'createBreaker',
  create: (options) => createBreaker(nested(options)),
  calls: { 'run.work': (work) => createBreaker().run(work) },
  rows: [
    ...badly('opens', 'an object', 5, null, 'share'),
    ...unknown('opens.probes', 'share, minCalls, windowMs, inARow', 1),
    ...badly('opens.share', 'a number from 0 to 1', -0.1, 1.1, 50, NaN, Infinity, '0.5', null),
    ...badly('opens.minCalls', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '10', null),
    ...badly('opens.windowMs', 'a number > 0 or Infinity', 0, -1, NaN, '30000', null),
    ...badly('opens.inARow', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '5', null),
    ...badly('closes', 'an object', 5, null, 'all'),
    ...unknown('closes.failures', 'probes, share', 1),
    ...badly('closes.probes', 'a whole number >= 1', 0, -1, 1.5, NaN, Infinity, '1', null),
    ...badly('closes.share', 'a number from 0 to 1', -0.1, 1.1, 50, NaN, Infinity, '0.5', null),
    ...badly('restore', 'the result of `save()` of a breaker', 5, null, 'open', {}, { state: 'open' }),
    ...badly(
      'restore',
      'the result of `save()` of a breaker',
      { state: 'ajar', at: 0, openMs: 5000, leftMs: 0, counted: [0, 0, 0, 0] },
      { state: 'open', at: '0', openMs: 5000, leftMs: 0, counted: [0, 0, 0, 0] },
      { state: 'open', at: NaN, openMs: 5000, leftMs: 0, counted: [0, 0, 0, 0] },
      { state: 'open', at: 0, openMs: 5000, leftMs: Infinity, counted: [0, 0, 0, 0] },
    ),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('openMs', 'a number > 0 or Infinity', 0, -1, NaN, '5000', null),
    ...badly('classify', 'a function', 'fatal', null, {}),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('run.work', 'a function', undefined, null, 5, {}, of(1)),
    ...unknown('threshold', known, 5),
  ],
};
