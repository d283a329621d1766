import { of } from 'rxjs';
import { toNative } from '../../operators/interop.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt } from '../support/misuse.js';
import { PlatformObservable } from '../support/platform-observable.js';

const aClass = 'a class, because this platform has no `Observable` of its own';

export const rows: MisuseTable = {
  operator: 'toNative',
  create: (options) => toNative(of(1), options),
  calls: { source: (source) => toNative(source, { observableClass: PlatformObservable }) },
  rows: [
    ...badly('source', 'an Observable', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, [], () => of(1)),
    ...badly('observableClass', aClass, undefined, NaN, 0, -1, 1.5, Infinity, 'Observable', null, {}),
    ...misspelt('Observable', 'observableClass', Object),
  ],
};
