import { of } from 'rxjs';
import { fromNative } from '../../operators/interop.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const anObservable = 'an Observable of the platform, with `subscribe(observer, { signal })`';

export const rows: MisuseTable = {
  operator: 'fromNative',
  create: fromNative,
  optionless: true,
  calls: { native: (native) => fromNative(native) },
  rows: badly('native', anObservable, NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, [], of(1)),
};
