import { robust } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { unknown } from '../support/misuse.js';

/** The groups of options name the operator that they are for. */
export const rows: MisuseTable = {
  operator: 'robust',
  create: (options: never) => robust(options),
  rows: unknown('split', 'retry, divide', {}),
};
