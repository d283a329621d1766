import { of } from 'rxjs';
import { fromSubscribable } from '../../operators/interop.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'fromSubscribable',
  create: fromSubscribable,
  optionless: true,
  calls: { factory: (factory) => fromSubscribable(factory) },
  rows: badly('factory', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, [], of(1)),
};
