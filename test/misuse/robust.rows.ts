import { robust } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { unknown } from '../support/misuse.js';

/** What is in its groups has the name of whom it is for. */
export const rows: MisuseTable = {
  operator: 'robust',
  create: (options: never) => robust(options),
  rows: unknown('split', 'retry, divide', {}),
};
