import { strictWithFloor } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'strictWithFloor',
  create: (options: never) => strictWithFloor(options),
  calls: { floor: (floor) => strictWithFloor(floor) },
  optionless: true,
  rows: badly('floor', 'a number from 0 to 1', NaN, -1, 1.5, Infinity, '0.1', null, {}),
};
