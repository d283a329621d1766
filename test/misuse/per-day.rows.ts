import { perDay } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, wrong } from '../support/misuse.js';

const ZONE = "the name of a time zone, such as 'America/Los_Angeles'";

export const rows: MisuseTable = {
  operator: 'perDay',
  create: (options) => perDay('requests', 60, options),
  calls: {
    unit: (value) => perDay(value, 60),
    amount: (value) => perDay('requests', value),
  },
  rows: [
    ...badly('unit', 'a non-empty string', '', 5, null, {}),
    ...wrong('unit', '`slots` are not counted per window', 'Use `concurrency`.', 'slots'),
    ...badly('amount', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('timeZone', ZONE, '', 'Moon/Tranquility', 5, null),
    ...badly('hour', 'a whole number from 0 to 23', -1, 24, 0.5, NaN, '0', null),
  ],
};
