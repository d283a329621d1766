import { adaptiveLimit, createLimiter } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, notLimiter, unknown, wrong } from '../support/misuse.js';

const known = 'min, max, classify';

export const rows: MisuseTable = {
  operator: 'adaptiveLimit',
  create: (options) => adaptiveLimit(createLimiter(), options),
  calls: {
    limiter: (value) => adaptiveLimit(value),
  },
  rows: [
    ...notLimiter(undefined, [], () => 4),
    ...badly('min', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '4', null),
    ...wrong('min', '`min` is greater than `max`, or Infinity', 'Lower `min`.', 65, Infinity),
    ...wrong('min', '`min` is greater than `max`, or Infinity', 'Lower `min`.', Infinity).map((row) => ({
      ...row,
      besides: { max: Infinity },
    })),
    ...badly('max', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '4', null),
    ...badly('classify', 'a function', 'fatal', null, {}, 5),
    ...unknown('onEvent', known, () => undefined),
  ],
};
