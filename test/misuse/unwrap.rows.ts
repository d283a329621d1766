import { unwrap } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

/** `mode` is an argument of its own; the rows give it beside the options. */
const create = (given: Readonly<Record<string, unknown>> | null): unknown => {
  if (typeof given !== 'object' || given === null) return unwrap('values', given as never);
  const { mode = 'values', ...options } = given;
  return unwrap(mode as 'values', options);
};

export const rows: MisuseTable = {
  operator: 'unwrap',
  create,
  rows: [
    ...badly('mode', "one of 'values', 'first', 'all'", 'some', 0, null, true, NaN),
    ...badly('onEvent', 'a function', console, 'log', null, 1),
    ...unknown('onDrop', 'onEvent', 5),
  ],
};
