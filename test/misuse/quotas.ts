import type { MisuseRow } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';

/** What is wrong with an amount per window; a bucket can save up, too. */
export function quotas(known: string, isBucket: boolean): MisuseRow[] {
  return [
    ...badly('unit', 'a non-empty string', '', 5, null, {}),
    ...wrong('unit', '`slots` are not counted per window', 'Use `concurrency`.', 'slots'),
    ...badly('amount', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('windowMs', 'a number > 0 or Infinity', 0, -1, NaN, '1000', null),
    ...(isBucket ? [...badly('windowMs', 'a finite number > 0', Infinity), ...buckets] : []),
    ...unknown('discipline', known, 'sliding'),
  ];
}

export const buckets: readonly MisuseRow[] = [
  ...badly('burst', 'a number > 0 or Infinity', 0, -1, NaN, '2', null),
  ...badly('burst', 'a finite number > 0', Infinity),
];
