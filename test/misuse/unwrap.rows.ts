import { unwrap } from '../../operators/index.js';
import { known } from '../../operators/options/options.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

/** `mode` is an argument of its own; the rows give it beside the options. */
const create = (given: Readonly<Record<string, unknown>>): unknown => {
  known('unwrap', given, Object.keys(Object(given) as object));
  const { mode = 'values', ...options } = given;
  return unwrap(mode as 'values', options);
};

export const rows: MisuseTable = {
  operator: 'unwrap',
  create,
  rows: [
    ...badly('mode', "one of 'values', 'first', 'all'", 'some', 0, null, true, NaN),
    ...badly('onEvent', 'a function', console, 'log', null, 1),
    ...badly('onDrop', 'absent (known options: onEvent)', 5),
  ],
};
