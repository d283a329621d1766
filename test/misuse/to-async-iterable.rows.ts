import { of } from 'rxjs';
import { toAsyncIterable } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { pullRows } from './pull-options.js';

export const rows: MisuseTable = {
  operator: 'toAsyncIterable',
  create: (options) => toAsyncIterable(of(1), options),
  calls: { source: (source) => toAsyncIterable(source) },
  rows: [...badly('source', 'an Observable', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, [], () => of(1)), ...pullRows],
};
