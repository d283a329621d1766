import { fromStream } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'fromStream',
  create: fromStream,
  optionless: true,
  calls: { factory: (factory) => fromStream(factory) },
  rows: badly('factory', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
};
